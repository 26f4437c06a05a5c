"""What tests of reclaiming share."""

import pytest

from lyra_opt.core import kernels


@pytest.fixture(params=["interpreted", "compiled"])
def mode(request, monkeypatch):
    """Run every kernel in one way, whatever its size."""
    least_work = {"interpreted": 10**18, "compiled": 0}
    monkeypatch.setattr(kernels, "COMPILE_FROM_WORK", least_work[request.param])
    return request.param
