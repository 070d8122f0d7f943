"""A polite stop: signals are noted, and a second one is obeyed at once."""

import signal
import threading

import pytest

from compile_il.training.loop import StopRequest, stop_is_requested

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_signal_is_noted(number: signal.Signals) -> None:
    before = [signal.getsignal(n) for n in SIGNALS]
    with StopRequest() as request:
        assert not request.requested
        signal.raise_signal(number)
        assert request.requested
    assert [signal.getsignal(n) for n in SIGNALS] == before


@pytest.mark.parametrize("second", SIGNALS)
def test_the_second_signal_interrupts(second: signal.Signals) -> None:
    before = [signal.getsignal(n) for n in SIGNALS]
    with StopRequest():
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(second)
    assert [signal.getsignal(n) for n in SIGNALS] == before


@pytest.mark.parametrize("announce", [True, False])
def test_the_first_ctrl_c_is_answered_at_once(announce: bool, capfd: pytest.CaptureFixture[str]) -> None:
    with StopRequest(announce=announce):
        signal.raise_signal(signal.SIGINT)
    answer = "\nstopping after this iteration; Ctrl-C again stops at once\n"
    assert capfd.readouterr().err == answer * announce


def test_work_inside_may_ask() -> None:
    assert not stop_is_requested()
    with StopRequest():
        assert not stop_is_requested()
        signal.raise_signal(signal.SIGINT)
        assert stop_is_requested()
        with StopRequest():
            assert not stop_is_requested()
        assert stop_is_requested()
    assert not stop_is_requested()


def test_ignored_signals_stay_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with StopRequest() as request:
            signal.raise_signal(signal.SIGINT)
            assert not request.requested
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_have_no_signals() -> None:
    seen = []

    def work() -> None:
        with StopRequest() as request:
            seen.append(request.requested)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False]
