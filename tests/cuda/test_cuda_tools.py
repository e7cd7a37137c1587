"""What is said of machines without a driver, with an old one, without the compiler, with an unknown architecture; with fakes of each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import cuda.bindings
import pytest
from click.testing import CliRunner

from zellige.cli.backends import backends
from zellige.cli.doctor import doctor
from zellige.diagnostics import CompileError, ZelligeError
from zellige.plugin.contract import Tool, Unavailable
from zellige.plugin.registry import registry
from zellige_cuda import compiler, device, presence, tools
from zellige_cuda.architectures import architecture
from zellige_cuda.forms import units_of


class Status(int):
    """An answer of the driver."""

    name: str

    @staticmethod
    def of(name: str, value: int) -> Status:
        made = Status(value)
        made.name = name
        return made


SUCCESS = Status.of("CUDA_SUCCESS", 0)


class Driver:
    """cuda-python's driver module on a machine with one device."""

    CUresult = SimpleNamespace(CUDA_SUCCESS=SUCCESS)
    CUdevice_attribute = SimpleNamespace(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR=75, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR=76)

    def __init__(self, answer: Status = SUCCESS, version: int = 13000, count: int = 1, capability: tuple[int, int] = (9, 0)) -> None:
        self.answer, self.version, self.count, self.capability = answer, version, count, capability
        self.load = SUCCESS

    def cuInit(self, flags: int) -> Any:
        return (self.answer,)

    def cuDriverGetVersion(self) -> Any:
        return SUCCESS, self.version

    def cuDeviceGetCount(self) -> Any:
        return SUCCESS, self.count

    def cuDeviceGet(self, index: int) -> Any:
        return SUCCESS, index

    def cuDeviceGetAttribute(self, attribute: int, index: int) -> Any:
        return SUCCESS, self.capability[attribute - 75]

    def cuDeviceGetName(self, size: int, index: int) -> Any:
        return SUCCESS, b"A device\0\0"

    def cuDeviceTotalMem(self, index: int) -> Any:
        return SUCCESS, 1 << 30

    def cuModuleLoadData(self, code: bytes) -> Any:
        return (self.load, 5) if int(self.load) == 0 else (self.load,)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Nothing is remembered of the machine before or after."""
    device.driver.cache_clear()
    yield
    device.driver.cache_clear()


def on(monkeypatch: pytest.MonkeyPatch, driver: Driver) -> Driver:
    monkeypatch.setattr(cuda.bindings, "driver", driver, raising=False)
    return driver


def unavailable(monkeypatch: pytest.MonkeyPatch, driver: Any) -> Unavailable:
    on(monkeypatch, driver)
    found = presence.devices()
    assert isinstance(found, Unavailable)
    (tool, *_) = tools.tools()
    assert tool.problem == found.reason
    return found


def test_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    class Missing(Driver):
        def cuInit(self, flags: int) -> Any:
            raise RuntimeError("libcuda.so.1: cannot open shared object file\nmore")

    found = unavailable(monkeypatch, Missing())
    assert found.code == "no-driver" and "libcuda.so.1" in found.reason and "more" not in found.reason


@pytest.mark.parametrize(
    "answer,code,words",
    [("CUDA_ERROR_NO_DEVICE", "no-device", "sees no device"), ("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "old-driver", "restart"),
     ("CUDA_ERROR_STUB_LIBRARY", "no-driver", "LD_LIBRARY_PATH"), ("CUDA_ERROR_UNKNOWN", "no-device", "CUDA_ERROR_UNKNOWN")],
)  # fmt: skip
def test_answers_of_a_driver_that_cannot_begin(monkeypatch: pytest.MonkeyPatch, answer: str, code: str, words: str) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    found = unavailable(monkeypatch, Driver(Status.of(answer, 100)))
    assert found.code == code and words in found.reason and "VISIBLE" not in found.reason


def test_devices_that_the_environment_hides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    found = unavailable(monkeypatch, Driver(Status.of("CUDA_ERROR_NO_DEVICE", 100)))
    assert "CUDA_VISIBLE_DEVICES is '7'" in found.reason


def test_an_old_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    found = unavailable(monkeypatch, Driver(version=11040))
    assert found.code == "old-driver" and "CUDA 11.4" in found.reason and "12.0" in found.reason
    device.driver.cache_clear()
    on(monkeypatch, Driver(version=12000))
    assert not isinstance(presence.devices(), Unavailable)


def test_a_driver_older_than_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = on(monkeypatch, Driver(version=12080))
    monkeypatch.setattr(compiler, "nvrtc", lambda: SimpleNamespace(nvrtcVersion=lambda: (0, 13, 1)))
    tool = tools.compiler_tool()
    assert tool.version == "13.1" and "CUDA 12.8" in tool.problem and "CUDA 13" in tool.problem
    driver.load = Status.of("CUDA_ERROR_INVALID_IMAGE", 200)
    with pytest.raises(CompileError) as raised:
        device.loaded_code(driver, b"\x7fELF")
    assert raised.value.code == "E504" and "update the driver" in str(raised.value)
    driver.version = 13000
    assert not tools.compiler_tool().problem
    with pytest.raises(ZelligeError) as refused:
        device.loaded_code(driver, b"\x7fELF")
    assert refused.value.code == "E642" and "INVALID_IMAGE" in str(refused.value)
    driver.load = SUCCESS
    assert device.loaded_code(driver, b"\x7fELF") == 5


def test_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    on(monkeypatch, Driver())

    def missing() -> Any:
        raise RuntimeError("libnvrtc.so.13 not found")

    monkeypatch.setattr(cuda.bindings, "nvrtc", SimpleNamespace(nvrtcVersion=missing), raising=False)
    tool = tools.compiler_tool()
    assert "libnvrtc.so.13 not found" in tool.problem and not tool.version
    with pytest.raises(CompileError) as raised:
        compiler.compile_cubin("", "f", "sm_80")
    assert raised.value.code == "E501"
    assert "pip install 'zellige[cuda]' brings it" in str(raised.value)
    assert "pip install 'zellige[cuda]' brings it" in tool.problem


def test_a_device_of_an_unknown_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    on(monkeypatch, Driver(capability=(13, 7)))
    found = presence.devices()
    assert not isinstance(found, Unavailable) and found[0].target == "cuda:sm_137"
    handle = registry().named("cuda")
    with pytest.raises(ZelligeError) as raised:
        handle.describe(registry().resolve("cuda:sm_137"))
    assert raised.value.code == "E706" and "sm_90a" in str(raised.value)


def test_later_revisions_are_like_the_first_of_their_kind() -> None:
    """Their devices have a target (sm_103a is what a device of capability 10.3 is), with the same instructions."""
    for capability, base in (((10, 3), "sm_100a"), ((12, 1), "sm_120a"), ((11, 0), "sm_100")):
        own, first = (architecture(registry().resolve(f"cuda:{word}")) for word in (device.word_of(*capability), base))
        assert [unit.name for unit in units_of(own)] == [unit.name for unit in units_of(first)]
        assert own.shared_bytes == first.shared_bytes


@pytest.mark.parametrize("word, base", [("sm_85", "sm_80"), ("sm_88", None), ("sm_101", None), ("sm_103f", "sm_103"), ("sm_122", "sm_121")])
def test_whose_machine_code_runs_on_an_unknown_revision(word: str, base: str | None) -> None:
    """None where the processor is a system on a chip, whose code and that of others do not run on each other."""
    with pytest.raises(ZelligeError, match=f"no architecture '{word}'.*those known are sm_75") as raised:
        architecture(registry().resolve(f"cuda:{word}"))
    assert ("machine code of" in str(raised.value)) == (base is not None)
    assert base is None or f"; the machine code of {base} runs on it; those known are" in str(raised.value)


@pytest.mark.parametrize("name", ["sm_70", "61", "sm_52"])
def test_a_processor_that_is_too_old_is_no_mistake_of_spelling(name: str) -> None:
    with pytest.raises(ZelligeError, match=f"'{name}' is older than any that programs are made for; those known are sm_75, ") as raised:
        architecture(registry().resolve(f"cuda:{name}"))
    assert raised.value.code == "E706" and "did you mean" not in str(raised.value)


def test_versions_and_places_of_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    on(monkeypatch, Driver(version=13020))
    driver, nvrtc, nvdisasm = tools.tools()
    assert (driver.name, driver.version, driver.problem) == ("CUDA driver", "13.2", "")
    assert nvrtc.place.rpartition("/")[2].startswith("libnvrtc.so") and not nvrtc.problem
    assert nvrtc.version == ".".join(map(str, compiler.compiler_version()))
    assert nvdisasm.is_optional


def test_doctor_shows_the_tools_and_counts_what_a_device_misses(monkeypatch: pytest.MonkeyPatch) -> None:
    handle = registry().named("cuda")
    lost = Tool(name="NVRTC", purpose="compiles", problem="it is lost")
    gone = Tool(name="nv", purpose="shows", problem="gone", is_optional=True)
    told = lost, gone
    monkeypatch.setattr(type(handle), "tools", lambda self: told if self.manifest.name == "cuda" else ())
    monkeypatch.setitem(handle.__dict__, "devices", Unavailable(code="no-driver", reason="none"))
    without = CliRunner().invoke(doctor, [])
    assert "it is lost" in without.output and "problem: backend cuda" not in without.output
    on(monkeypatch, Driver())
    monkeypatch.setitem(handle.__dict__, "devices", presence.devices())
    found = CliRunner().invoke(doctor, [])
    assert found.exit_code == 1 and "problem: backend cuda: NVRTC: it is lost" in found.output
    assert "problem: backend cuda: nv:" not in found.output


def test_backends_doctor_says_where_the_tools_are() -> None:
    found = CliRunner().invoke(backends, ["doctor", "cuda", "--json"])
    (report,) = json.loads(found.output)
    assert [tool["name"] for tool in report["tools"]] == ["CUDA driver", "NVRTC", "nvdisasm"]
    shown = CliRunner().invoke(backends, ["doctor", "cuda"])
    assert "NVRTC" in shown.output


def test_a_backend_that_cannot_tell_of_its_tools_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing() -> Any:
        raise OSError("no such file")

    monkeypatch.setattr(tools, "tools", failing)
    (tool,) = registry().named("cuda").tools()
    assert "no such file" in tool.problem
