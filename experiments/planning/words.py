"""State a plan in an operator's words: what is lost, why nothing is better, and who is hurt."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime

from lyra_opt.core.errors import counted
from lyra_opt.core.numbers import DOWN, HOURS, count, in_unit
from lyra_opt.core.result import Status
from lyra_opt.core.solving import Answer
from lyra_opt.core.table import Column, Table
from lyra_opt.core.texts import show_list
from lyra_opt.experiments.planning.planning import ClusterPlan, Disruption, Explanation, explain
from lyra_opt.experiments.planning.questions import ANNOTATION, Case, Consolidate, Drain, Fit
from lyra_opt.experiments.planning.steps import steps_of, suspended_gangs
from lyra_opt.instances.snapshots.snapshot import RunningGang
from lyra_opt.preemption import Solution
from lyra_opt.preemption.put_back import could_stay

LONGEST_HEADING = 120
"""The number of letters up to which the heading of a page lists the nodes."""

LONGEST_CAPTION = 40
"""The number of letters up to which the title of a picture lists the nodes."""

AGES = "Check the cluster again before you act: a snapshot ages in seconds."


def headline(plan: ClusterPlan) -> str:
    """Return the answer in one sentence."""
    question = plan.case.question
    if not plan.exists:
        if plan.answer.status is Status.INFEASIBLE:
            return f"Impossible: {_impossible(plan)}"
        return "No plan was found within the time limit, and none was ruled out."
    nodes = show_list(plan.nodes)
    if isinstance(question, Drain):
        return f"Drain {counted(len(plan.nodes), 'node')}: {nodes}."
    if isinstance(question, Consolidate):
        held = {pod.node for gang in plan.case.snapshot.gangs for pod in gang.pods}
        free = sum(name not in held for name in plan.nodes)
        subject = f"{free:,} of them {'is' if free == 1 else 'are'}"
        if free == len(plan.nodes):
            subject = "it is" if free == 1 else "all of them are"
        already = f"; {subject} empty already" if free else ""
        return f"{counted(len(plan.nodes), 'node')} can be empty: {nodes}{already}."
    pods = counted(sum(count for _, _, count in plan.placements), _part(plan.case))
    if not question.gang.owner.name:
        return f"Room for {pods}: {nodes}."
    return f"Room for {pods} of {question.gang.id}: {nodes}."


def heading(plan: ClusterPlan) -> tuple[str, ...]:
    """Return the answer as a heading; if it is long, the whole answer follows as a sentence."""
    answer = headline(plan)
    if plan.exists:
        is_short = len(answer) <= LONGEST_HEADING
        return (answer,) if is_short else (answer.partition(":")[0], answer)
    is_impossible = plan.answer.status is Status.INFEASIBLE
    return "No plan exists" if is_impossible else "No plan was found", answer


def caption(plan: ClusterPlan) -> tuple[str, str]:
    """Return the two lines of a picture's title: the answer, and how many jobs it hurts.

    The drain before a `Fit` has a picture of its own, so the jobs that it hurts are not counted.
    """
    question = plan.case.question
    nodes = counted(len(plan.nodes), "node")
    if isinstance(question, Fit):
        pods = counted(sum(count for _, _, count in plan.placements), _part(plan.case))
        answer = f"Room for {pods} on {nodes}"
    elif isinstance(question, Consolidate):
        answer = f"{nodes} can be empty"
    else:
        listed = ", ".join(plan.nodes)
        answer = f"Drain {listed if len(listed) <= LONGEST_CAPTION else nodes}"
    hurt = [each for each in plan.disruptions if not each.is_drained]
    stopped = sum(each.is_whole for each in hurt)
    smaller = sum(bool(each.lost) for each in hurt) - stopped
    moved = sum(len(each.moved) for each in hurt)
    job = "further job" if plan.before else "job"
    effects = [f"{counted(stopped, job)} stopped"] * (stopped > 0 or not moved)
    effects += [f"{counted(smaller, job)} with fewer {_part(plan.case)}s"] * bool(smaller)
    effects += [f"{counted(moved, 'pod')} moved"] * bool(moved)
    return f"{answer}:", ", ".join(effects)


def _part(case: Case) -> str:
    """Return the noun for a part of a job: a job of Slurm has one part on each node."""
    return "part" if case.snapshot.system == "slurm" else "pod"


def _whole(case: Case) -> str:
    """Return the noun for what holds resources: the parts of a job of Slurm have no names."""
    return "jobs" if case.snapshot.system == "slurm" else "pods"


def _impossible(plan: ClusterPlan) -> str:
    """Return why no plan exists, and the gangs that stand in the way."""
    question = plan.case.question
    if isinstance(question, Consolidate):
        return f"no further node can be emptied by moving {_whole(plan.case)}."
    reason = _reason(plan.case, plan.answer)
    priorities = [gang.priority for gang in plan.case.snapshot.gangs]
    if isinstance(question, Fit) and priorities and min(priorities) >= question.gang.priority:
        is_given = question.gang.owner.name or question.gang.priority
        whose = f"that of {question.gang.id}" if is_given else "the default; see --priority"
        reason += f". No running job has a priority below {question.gang.priority}, {whose}"
    if not plan.blocking:
        return f"{reason}."
    names = show_list([f"{gang.id} ({_why_untouched(gang)})" for gang in plan.blocking])
    all_of = "all of " if len(plan.blocking) > 1 else ""
    return f"{reason}. It would be possible without {all_of}{names}."


def _reason(case: Case, answer: Answer[Solution]) -> str:
    """Return the reason of the solver in an operator's words, without the names of shapes."""
    reason = answer.message or "every choice breaks a condition of the question"
    reason = re.sub(r" of shape '[^']*'| and 1 pods\b", "", reason)
    reason = re.sub(r"\b(\d+) gpu\b", lambda found: counted(int(found[1]), "GPU"), reason)
    reason = re.sub(r"\bgang(s?)\b", r"job\1", reason)
    return re.sub(r"\bpod(s?)\b", rf"{_part(case)}\1", reason)


def _why_untouched(gang: RunningGang) -> str:
    if gang.protected_because:
        force = "; --force allows it" if gang.needs_force else ""
        return f"{gang.protected_because}{force}"
    return gang.not_preempted_because or f"priority {gang.priority}"


def term_phrase(case: Case, key: str, value: int, rounding: str | None = None) -> str:
    """Return the meaning of a value of a term of the objective, as a verb phrase.

    A lower bound on the value is rounded with `lyra_opt.core.numbers.DOWN`.
    """
    if key == "weighted_gangs":
        cost = case.choices.cost
        if cost.startswith(ANNOTATION):
            return f"costs {value} by {cost}"
        return f"loses {in_unit(HOURS)(value, rounding=rounding)} GPU hours of work"
    return _phrase(case, key, lambda noun: counted(value, noun))


def zero_phrase(case: Case, key: str) -> str:
    """Return the meaning of the value 0 of a term of the objective, as a verb phrase."""
    phrases = {
        "unplaced": f"places every pending {_part(case)}",
        "budget_excess": "keeps every disruption budget",
        "weighted_gangs": "loses no work",
    }
    none = phrases.get(key)
    return none or _phrase(case, key, lambda noun: f"no {noun.removeprefix('unit of ')}")


def _phrase(case: Case, key: str, amount: Callable[[str], str]) -> str:
    """Return the meaning of a term that counts something; `amount` puts a number to a noun."""
    name, _, priority = key.partition("@")
    resource, part = name.removeprefix("lost:"), _part(case)
    unit = "GPU" if resource == "gpu" else f"unit of {resource}"
    phrases = {
        "lost_gangs": f"stops {amount('job')}",
        "lost_pods": f"evicts {amount(part)}",
        "moved_pods": f"moves {amount('pod')}",
        "unplaced": f"leaves {amount(f'pending {part}')} without a node",
        "budget_excess": f"evicts {amount('pod')} more than disruption budgets allow",
    }
    phrase = phrases.get(name, f"takes {amount(unit)} from running {_whole(case)}")
    return f"{phrase} of priority {priority}" if priority else phrase


def terms_in_words(case: Case, terms: Mapping[str, int], rounding: str | None = None) -> str:
    """Return the values of all terms above 0 as one phrase, with each verb once.

    ``rounding`` is that of `term_phrase`.
    """
    phrases: list[str] = []
    verb = ""
    for key, value in terms.items():
        if value:
            phrase = term_phrase(case, key, value, rounding)
            phrases.append(phrase.removeprefix(f"{verb} ") if verb else phrase)
            verb = phrase.split(" ")[0]
    if len(phrases) < 2:
        return phrases[0] if phrases else "stops nobody"
    return f"{', '.join(phrases[:-1])} and {phrases[-1]}"


def proof_sentence(plan: ClusterPlan) -> str:
    """Return the sentence that states the proof, from the objective that was used."""
    case, answer = plan.case, plan.answer
    terms = answer.measures.get("terms") or {}
    if isinstance(case.question, Consolidate):
        if plan.most_nodes is not None and plan.most_nodes > len(plan.nodes):
            return f"Not proved: at most {plan.most_nodes} nodes can be empty."
        moves = "" if case.question.most_moves is None else " with so few moves"
        more = len(plan.nodes) + 1
        return f"Proved: {counted(more, 'node')} cannot be emptied{moves}."
    choice = "choice of victims"
    if isinstance(case.question, Drain):
        if not case.question.count:
            return "All nodes are named, so there is no other choice."
        named = f" with {show_list(case.question.nodes)}" if case.question.nodes else ""
        choice = f"choice of {counted(len(plan.nodes), 'node')}{named}"
    if answer.status is not Status.OPTIMAL:
        bound = int(answer.dual_bound or 0)
        objective = case.instance.terms
        keys = [term.key for term in objective.terms]
        least = dict(zip(keys, objective.decode(bound), strict=True))
        return (
            f"Not proved within the time limit. The proved bound: a {choice} at best "
            f"{terms_in_words(case, least, DOWN)}."
        )
    if not any(terms.values()):
        return f"Nobody {'else ' if plan.before else ''}is stopped, so nothing can be better."
    sentences: list[str] = []
    subject, kept = f"every {choice}", list[str]()
    for key, value in terms.items():
        if not value:
            phrase, _, priority = zero_phrase(case, key).rpartition(" of priority ")
            if phrase and kept and kept[-1].startswith(phrase):
                kept[-1] += f" or {priority}"
            else:
                kept.append(zero_phrase(case, key))
            continue
        if key == "lost_pods" and sentences:
            break  # which decides between plans that are alike in all that matters
        verb, rest = term_phrase(case, key, value, DOWN).split(" ", 1)
        if sentences:
            also = "also " * (len(sentences) > 1)
            conditions = " and ".join(map(_plural, kept))
            sentences.append(f"those that {also}{conditions} {_plural(verb)} at least {rest}")
        else:
            condition = f" that {' and '.join(kept)}" if kept else ""
            sentences.append(f"{subject}{condition} {verb} at least {rest}")
        kept = [f"{verb} only {rest.removesuffix(f' from running {_whole(case)}')}"]
    return f"Proved: {'; '.join(sentences)}."


def _plural(phrase: str) -> str:
    """Return a verb phrase such as "stops 2 jobs" for a plural subject: "stop 2 jobs"."""
    verb, space, rest = phrase.partition(" ")
    return f"{verb.removesuffix('s')}{space}{rest}"


def rule_sentence(plan: ClusterPlan) -> str:
    """Return the effect of the scheduler's own rule; empty if no rule is compared."""
    rule, case = plan.rule, plan.case
    if rule is None:
        return ""
    name = f"For comparison: draining the nodes with the fewest {_whole(case)}"
    if isinstance(case.question, Fit):
        name = f"For comparison: an imitation of the scheduler's rule ({rule.solver})"
    if rule.solution is None:
        return f"{name} finds no plan."
    terms = rule.measures["terms"]
    if terms == plan.answer.measures["terms"]:
        return f"{name} is equally good."
    sentence = f"{name} {terms_in_words(case, terms)}."
    if wasted := sum(could_stay(case.instance, rule.solution).values()):
        sentence += f" {counted(wasted, _part(case))} of these could have stayed."
    return sentence


def explanation_sentences(
    plan: ClusterPlan, nodes: Iterable[str], time_limit_s: float
) -> tuple[str, ...]:
    """Return for each of some nodes why the plan uses it or does not."""
    found = (explain(plan, name, time_limit_s=time_limit_s) for name in nodes)
    return tuple(_explanation_sentence(plan, each) for each in found)


def _explanation_sentence(plan: ClusterPlan, found: Explanation) -> str:
    case, node = plan.case, found.node
    uses = "is used" if isinstance(case.question, Fit) else "is emptied"
    decision = uses if found.is_used else f"{uses.replace('is ', 'is not ')}"
    if found.reason:
        return f"Node {node} {decision}: it is {found.reason}."
    if not plan.exists:
        return f"Node {node} {decision}: it may be chosen, but there is no plan."
    opposite = "without it" if found.is_used else "with it"
    if found.other_nodes is not None:
        nodes = counted(found.other_nodes, "node")
        return f"Node {node} {decision}: {opposite}, {nodes} can be empty."
    if found.other is None:
        return f"Node {node} {decision}: the question leaves no choice."
    if found.other.solution is None:
        return f"Node {node} {decision}: {opposite}, {_no_plan(case, found.other)}."
    terms, other = plan.answer.measures["terms"], found.other.measures["terms"]
    if terms == other:
        return f"Node {node} {decision}, but another plan {opposite} is equally good."
    return (
        f"Node {node} {decision}: the best plan {opposite} {terms_in_words(case, other)}; "
        f"this plan {terms_in_words(case, terms)}."
    )


def _no_plan(case: Case, answer: Answer[Solution]) -> str:
    if answer.status is not Status.INFEASIBLE:
        return "no plan was found within the time limit"
    return f"no plan exists, because {_reason(case, answer)}"


def hurt_table(plan: ClusterPlan) -> Table:
    """Return a table with one row for each gang that loses or moves pods."""
    suspended = suspended_gangs(plan)
    part = _part(plan.case)
    owners = Counter(_who(each.gang) for each in plan.disruptions)
    gangs = [each.gang for each in plan.disruptions]
    return Table(
        [
            Column(key="who", values=[_named(each, owners) for each in plan.disruptions]),
            Column(key="priority", values=[gang.priority for gang in gangs], show=count),
            Column(
                key="pods", values=[_touched(each) for each in plan.disruptions], heading=f"{part}s"
            ),
            Column(key="gpus", values=[each.lost_gpus for each in plan.disruptions], show=count),
            Column(
                key="lost_gpu_s",
                values=[each.lost_gpu_s for each in plan.disruptions],
                show=in_unit(HOURS),
                heading="GPU hours since start",
            ),
            Column(
                key="starts_again",
                values=[
                    _starts_again(each, each.gang.id in suspended, part)
                    for each in plan.disruptions
                ],
            ),
        ]
    )


def _who(gang: RunningGang) -> str:
    owner = gang.owner
    return f"{owner.namespace}/{owner.name} ({owner.kind})" if owner.namespace else owner.name


def _named(each: Disruption, owners: Mapping[str, int]) -> str:
    """Return the owner of a gang, with the pods that are hurt if the owner has several gangs."""
    who = _who(each.gang)
    pods = [*each.lost, *(pod for pod, _ in each.moved)]
    return who if owners[who] == 1 else f"{who}: {show_list([pod.name for pod in pods])}"


def _touched(each: Disruption) -> str:
    moves = f" ({counted(len(each.moved), 'move')})" if each.moved else ""
    return f"{len(each.lost) + len(each.moved)} of {len(each.gang.pods)}{moves}"


def _starts_again(each: Disruption, is_suspended: bool, part: str) -> str:
    """Return when the pods of a gang start again; `part` is the noun for a pod."""
    gang = each.gang
    left = len(gang.pods) - len(each.lost)
    if is_suspended:
        again = "when you let it go on"
    elif each.lost and not gang.can_be_requeued:
        again = "not by itself"
    elif not each.can_return:
        again = "not before one of these nodes is open again"
    elif each.restarts_on:
        again = f"at once on {show_list(sorted(set(each.restarts_on)))}"
        if each.rivals:
            rival = "pending pod" if part == "pod" else "pending job"
            several = f"{counted(each.rivals, rival)} take"
            again += f", unless the {several if each.rivals > 1 else f'{rival} takes'} it"
    elif not each.lost:
        again = f"on {show_list(sorted({to for _, to in each.moved}))}"
    else:
        again = "when there is room"
    if each.lost and left and not each.is_whole:
        again = f"{again}; keeps {counted(left, part)}"
    return again


def command_lines(plan: ClusterPlan) -> list[tuple[str, list[str]]]:
    """Return pairs of a heading and the lines with the steps below it, as a shell script."""
    steps = steps_of(plan)
    found = []
    for heading, listed in (("Commands (nothing was run)", steps.do), ("To undo", steps.undo)):
        lines = []
        for number, step in enumerate(listed, 1):
            lines += [f"# {number}. {step.purpose}.", *step.commands]
        if lines:
            found.append((heading, lines))
    return found


def verdict(plan: ClusterPlan) -> list[str]:
    """Return sentences on the losses, the proof and the scheduler's rule; empty without a plan."""
    if not plan.exists:
        return []
    found = [proof_sentence(plan), rule_sentence(plan)]
    if not isinstance(plan.case.question, Consolidate):
        terms = plan.answer.measures.get("terms") or {}
        found.insert(0, f"The plan {terms_in_words(plan.case, terms)}.")
    if (before := plan.before) is not None:
        effect = terms_in_words(before.case, before.answer.measures["terms"])
        found[0] = f"Beyond that, the plan{found[0].removeprefix('The plan')}"
        found.insert(0, f"Draining {show_list(before.nodes)} first {effect}.")
    return [sentence for sentence in found if sentence]


def _bare_pods(plan: ClusterPlan) -> list[str]:
    """Return sentences on pods without a controller, which nothing creates again."""
    question = plan.case.question
    texts = {
        "Pods without a controller are lost for good": [each.gang for each in plan.disruptions]
    }
    if isinstance(question, Drain) and question.count and not plan.case.choices.is_forced:
        rule = "Nodes with pods that nothing creates again are not chosen; --force allows it"
        texts[rule] = [gang for gang in plan.case.snapshot.gangs if gang.needs_force]
    named = (
        (text, [g.id for g in gangs if g.owner.kind == "Pod"]) for text, gangs in texts.items()
    )
    return [f"{text}: {show_list(names)}." for text, names in named if names]


def limits(plan: ClusterPlan) -> Sequence[str]:
    """Return sentences on what the plan assumes, and on what was not read."""
    snapshot = plan.case.snapshot
    ages = [AGES]
    if plan.disruptions and snapshot.newest_s:
        now = datetime.fromtimestamp(snapshot.newest_s, UTC)
        ages = [
            f"GPU hours count until {now:%Y-%m-%d %H:%M:%S} UTC, the newest time in the files.",
            AGES,
        ]
    return (*plan.case.notes, *_bare_pods(plan), *snapshot.assumptions, *snapshot.not_read, *ages)
