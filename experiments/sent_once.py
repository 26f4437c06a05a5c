"""Parts of tasks that many of them share."""


class SentOnce:
    """Base of what other machines are sent once, not with every task that holds it."""

    __slots__ = ()
