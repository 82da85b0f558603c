"""nanoGPT's console: lines as its `train.py` prints them."""

from pathlib import Path

from console_logs import curve, runs_in, the_run_in


def iteration(number: int, loss: float, mfu: float = 0.1234) -> str:
    return f"iter {number}: loss {loss:.4f}, time {123.456:.2f}ms, mfu {mfu * 100:.2f}%\n"


def evaluation(number: int, train: float, val: float) -> str:
    return f"step {number}: train loss {train:.4f}, val loss {val:.4f}\n"


def opening(batch_tokens: int) -> str:
    return (
        "Overriding config with config/train_gpt2.py:\nbatch_size = 12\nblock_size = 1024\n"
        f"tokens per iteration will be: {batch_tokens:,}\nInitializing a new model from scratch\n"
        "number of parameters: 123.59M\nusing fused AdamW: True\n"
    )


def test_iteration_n_is_update_n_plus_1_and_an_evaluation_at_n_comes_after_n(tmp_path: Path):
    text = opening(491_520) + evaluation(0, 10.9886, 10.9914) + iteration(0, 10.9874, mfu=-1.0)
    text += (
        iteration(10, 9.6543)
        + evaluation(20, 8.9012, 8.9123)
        + "saving checkpoint to out\n"
        + iteration(20, 8.8765)
    )
    run = the_run_in(tmp_path, text, "nanogpt")
    assert curve(run, "loss") == [(1, 10.9874), (11, 9.6543), (21, 8.8765)]
    assert curve(run, "val_loss") == [(0, 10.9914), (20, 8.9123)]
    assert curve(run, "train_loss_estimate") == [(0, 10.9886), (20, 8.9012)]
    assert run.facts.batch_tokens == 491_520
    assert run.train_window == 1


def test_a_loss_that_is_nan_is_kept_as_such_and_nan_elsewhere_does_no_harm(tmp_path: Path):
    text = iteration(0, 10.5) + iteration(10, float("nan")) + iteration(20, 9.5, mfu=float("nan"))
    steps = [step for step, loss in curve(the_run_in(tmp_path, text, "nanogpt"), "loss") if loss == loss]
    assert steps == [1, 21]


def test_the_evaluation_before_the_first_iteration_of_a_second_run_belongs_to_it(tmp_path: Path):
    """Two runs appended to one file: nanoGPT evaluates first, so its settings stand ahead of that evaluation."""
    text = ""
    for batch_tokens, loss in ((491_520, 10.0), (983_040, 9.9)):
        text += opening(batch_tokens) + evaluation(0, 10.98, loss + 1)
        text += "".join(iteration(n, loss - n / 100) for n in range(0, 100, 10)) + evaluation(
            100, 9.01, loss - 1
        )
    first, second = runs_in(tmp_path, text, "nanogpt")
    assert (first.facts.batch_tokens, second.facts.batch_tokens) == (491_520, 983_040)
    assert curve(first, "val_loss") == [(0, 11.0), (100, 9.0)]
    assert curve(second, "val_loss") == [(0, 10.9), (100, 8.9)]


def test_a_run_that_goes_on_from_a_checkpoint_is_one_run(tmp_path: Path):
    """Where it evaluates again at the checkpoint, the settings ahead of that are the same run's."""
    text = opening(491_520) + "".join(iteration(n, 10 - n / 100) for n in range(0, 100, 10))
    text += opening(491_520) + evaluation(50, 9.51, 9.52)
    text += "".join(iteration(n, 10 - n / 100) for n in range(50, 150, 10))
    run = the_run_in(tmp_path, text, "nanogpt")
    assert run.facts.batch_tokens == 491_520
    assert max(step for step, _ in curve(run, "loss")) == 141
