"""What all tests share: how Hypothesis runs, and files made on the fly."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from lyra_opt.__main__ import main
from lyra_opt.core.errors import InputError
from lyra_opt.core.kernels import _announce_compiling
from lyra_opt.core.loading import load_instance
from tests.draws import FULL
from tests.pictures import faults_of

ROOT = Path(__file__).parent.parent
FIGURE_5 = ROOT / "instances" / "library" / "lyra-figure-5.json"

# No deadlines: a test must not fail because the machine is busy.
# Few examples each time, others every time: what a property test finds is found sooner or later.
settings.register_profile(
    "default",
    deadline=None,
    max_examples=FULL // 4,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.register_profile("full", settings.get_profile("default"), max_examples=FULL)
settings.register_profile("thorough", settings.get_profile("default"), max_examples=20 * FULL)
settings.register_profile(
    "fuzz", settings.get_profile("default"), max_examples=int(os.environ.get("EXAMPLES", FULL))
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture(autouse=True, scope="session")
def readable_pictures():
    """Hold every picture that a test writes against the rules of pictures."""
    from matplotlib.figure import Figure

    written = Figure.savefig

    def savefig(figure, *arguments, **options):
        faults = faults_of(figure, is_trimmed=options.get("bbox_inches") == "tight")
        assert not faults, faults
        written(figure, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", savefig)
        yield


@pytest.fixture(autouse=True)
def compiling_is_announced():
    """Announce the compilation of kernels, so that the first test that needs one prints nothing."""
    _announce_compiling()


@pytest.fixture
def figure_5():
    """Lyra's Figure 5: six servers of 8 GPUs, jobs a to d, two servers to reclaim."""
    return load_instance(FIGURE_5).instance


@pytest.fixture
def figure_5_document():
    """The same as a document that a test may change."""
    return json.loads(FIGURE_5.read_text())


@pytest.fixture
def write_json(tmp_path):
    """Return a function that writes a JSON file into a fresh folder."""

    def write(name, value):
        path = tmp_path / name
        path.write_text(json.dumps(value))
        return path

    return write


@pytest.fixture
def write(tmp_path):
    """Return a function that writes text or bytes into a fresh folder."""

    def write_file(content, name="trace.csv"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_file


@pytest.fixture
def heard():
    """Let Ctrl-C raise KeyboardInterrupt, also in a background job, which ignores SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler, "not restored"
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def run(capfd):
    """Return a function that runs the command line: exit code, stdout, stderr."""

    def run_command(*arguments):
        try:
            exit_code = main([str(argument) for argument in arguments])
        except SystemExit as stop:  # argparse
            exit_code = int(stop.code or 0)
        output = capfd.readouterr()
        return exit_code, output.out, output.err

    return run_command


def built(source, folder, target):
    """Return the archive that is made of a source tree."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", target]
    subprocess.run([*command, "--directory", folder], cwd=source, check=True, capture_output=True)
    (made,) = folder.iterdir()
    return made


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """Return the wheel of this tree."""
    return built(ROOT, tmp_path_factory.mktemp("wheel"), "wheel")


def assert_one_line_error(result, *parts):
    """Assert exit code 2, nothing on stdout and one line on stderr that holds `parts`."""
    exit_code, out, err = result
    assert exit_code == 2, err
    assert out == ""
    assert err.startswith("lyra-opt: error: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    for part in parts:
        assert part in err


def assert_refused(read, path, part):
    """Assert that a file is refused in one short line that names it and holds `part`."""
    with pytest.raises(InputError) as refusal:
        read(path)
    message = str(refusal.value)
    assert message.startswith(f"{path}: ")
    assert part in message
    assert "\n" not in message
    assert len(message) < len(str(path)) + 1000
