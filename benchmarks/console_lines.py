"""What trainers print at a step on their consoles: made up, in the lengths and with the extras of real logs.

Each function takes the number of updates made and returns one record, newline included. Those of Composer, OLMo-core
and MaxText are of several lines or many fields, as these print them; numbers that nobody reads are the same in all.
"""

from collections.abc import Callable

RANK = "7:  "  # as srun puts it ahead of each line

# What clusters print between the records: nine lines.
NOISE = (
    "(min, max) time across ranks (ms):\n"
    "    forward-backward ...............................: (812.31, 813.07)\n"
    "    optimizer ......................................: (12.22, 12.91)\n"
    "3: [rank3]:W0501 10:00:00.123 torch/distributed/distributed_c10d.py:4876 a warning that every rank prints\n"
    "7: [rank7]:W0501 10:00:00.123 torch/distributed/distributed_c10d.py:4876 a warning that every rank prints\n"
    "[after 100 iterations] memory (MB) | allocated: 30112.4 | max allocated: 70110.2 | reserved: 72000.0\n"
) + "NCCL INFO Channel 00/0 : 3[3] -> 4[4] via P2P/IPC, which nobody asked for and nobody reads\n" * 3


def loss_at(step: int) -> float:
    return 2 + 9 / step**0.3


def megatron(step: int) -> str:
    return (
        f"{RANK}[2026-05-01 10:00:00.123456] iteration {step:8d}/{10**7:8d} | consumed samples: {512 * step:12d} | "
        "elapsed time per iteration (ms): 812.3 | throughput per GPU (TFLOP/s/GPU): 401.2 | learning rate: "
        f"3.000000E-04 | global batch size:   512 | lm loss: {loss_at(step):.6E} | loss scale: 1.0 | "
        "grad norm: 0.512 | number of skipped iterations:   0 | number of nan iterations:   0 |\n"
    )


def neox(step: int) -> str:
    return (
        f"[2026-05-01 10:00:00,123] [INFO] [logging.py:96:log_dist] [Rank 0] samples/sec: 98.215 | iteration {step:8d}/"
        f"{10**7:8d} | elapsed time per iteration (ms): 2606.4 | learning rate: 3.000E-04 | approx flops per GPU: "
        f"118.2TFLOPS | lm_loss: {loss_at(step):.6E} | loss scale: 65536.0 | number of skipped iterations:   0 | "
        "number of nan iterations:   0 |\n"
    )


def composer_text(step: int) -> str:
    return (
        f"[batch={step}/10000000]:\n\t Train time/epoch: 0\n\t Train time/batch: {step - 1}\n\t Train time/sample: "
        f"{512 * (step - 1)}\n\t Train time/batch_in_epoch: {step - 1}\n\t Train time/token: {1048576 * (step - 1)}\n"
        "\t Train memory/peak_allocated_mem: 30.1124\n\t Train memory/peak_reserved_mem: 72.0000\n"
        "\t Train trainer/device_train_microbatch_size: 8\n"
        f"\t Train loss/train/total: {loss_at(step):.4f}\n\t Train metrics/train/LanguageCrossEntropy: "
        f"{loss_at(step):.4f}\n\t Train metrics/train/LanguagePerplexity: 60.4750\n"
        "\t Train throughput/batches_per_sec: 0.8123\n\t Train throughput/device/tokens_per_sec: 13107.2000\n"
        "\t Train time/total: 10.1234\n\t Train lr-DecoupledAdamW/group0: 0.0030\n"
    )


def internevo(step: int) -> str:
    return (
        "2026-05-01 10:00:00,123\tINFO pipeline.py:641 in record_current_batch_training_metrics -- tflops=63.28 "
        f"step={step - 1} loss={loss_at(step)} real_tgs=1400.1 tgs (tokens/gpu/second)=1424.93 tgs/last_tgs_1=1424.93 "
        "tgs/tgs_all=1424.93 tgs/tgs_avg=1424.93 tgs/tgs_SMA=1424.93 tgs/last_tgs_10=0 tgs/last_tgs_50=0 lr=0.0003 "
        "loss_scale=65536.0 grad_norm={'0_default': 66.51, '1_fp32': 0.0} moe_loss=3.29 micro_num=4 "
        f"num_consumed_tokens={131072 * step} inf_nan_skip_batches=0 num_samples_in_batch=19 largest_length=2048 "
        "largest_batch=6 smallest_batch=3 adam_beta2=0.95 fwd_bwd_time=6.87 acc=0.0 perplexity=112181.7188\n"
    )


def nanotron(step: int) -> str:
    return (
        f"05/01/2026 10:00:00 [INFO|DP=0|PP=0|TP=0]: iteration: {step} / 10000000 | consumed_tokens: {step:.3g}M | "
        "elapsed_time_per_iteration_ms: 4.71K | tokens_per_sec: 109K | tokens_per_sec_per_gpu: 13.6K | "
        f"global_batch_size: 96 | lm_loss: {loss_at(step):.3g} | lr: 0.0003 | model_tflops_per_gpu: 180 | "
        "hardware_tflops_per_gpu: 180 | grad_norm: 2.96\n"
    )


def torchtitan(step: int) -> str:
    return (
        f"[rank0]:[titan] 2026-01-05 17:02:11,201 - root - INFO - \x1b[31mstep: {step:2}  \x1b[32mloss: "
        f"{loss_at(step):8.5f}  \x1b[38;2;180;60;0mgrad_norm:  1.2500  \x1b[38;2;54;234;195mmemory: 40.12GiB(42.10%)  "
        "\x1b[34mtps: 7,012  \x1b[36mtflops: 300.10  \x1b[35mmfu: 30.34%\x1b[39m\n"
    )


def olmo_core(step: int) -> str:
    return (
        "2026-01-05 17:02:11.201\tnode-1:0\tolmo_core.train.callbacks.console_logger:64\tINFO\t"
        f"[step={step}/10000000,epoch=1,eta=1h2m3s]\n    gpu_memory/GPU 0 active mem (GiB)=12.34\n"
        "    gpu_memory/GPU 0 active mem (%)=12.34\n    optim/LR (group 0)=3.00E-05\n    optim/total grad norm=0.5124\n"
        "    throughput/device/MFU=42.10\n    throughput/device/TPS=13,107\n"
        f"    throughput/total tokens={1048576 * step:,}\n    train/CE loss={loss_at(step):.3f}\n"
        "    train/PPL=60,475\n    train/Z loss=0.0012\n"
    )


def maxtext(step: int) -> str:
    return (
        f"I0425 09:31:19.156157 133066620835648 metric_logger.py:196] completed step: {step - 1}, seconds: 1.234, "
        f"TFLOP/s/device: 85.123, Tokens/s/device: 12912.300, total_weights: 65536, loss: {loss_at(step):.3f}\n"
    )


def nanochat(step: int) -> str:
    return (
        f"step {step - 1:05d}/10000000 (0.01%) | loss: {loss_at(step):.6f} | lrm: 1.00 | dt: 410.12ms | tok/sec: "
        "1,278,353 | bf16_mfu: 47.12 | epoch: 1 pq: 0 rg: 12 | total time: 0.05m | eta: 145.1m\n"
    )


def modded_nanogpt(step: int) -> str:
    return (
        f"step:{step}/10000000 train_loss:{loss_at(step):.4f} train_time:{100 * step}ms step_avg:100.10ms\n"
    )


def llm_c(step: int) -> str:
    """Of ``main.log``, the shorter of its logs."""
    return f"s:{step - 1} trl:{loss_at(step):.4f} lr:0.000600 norm:0.51\n"


def nanogpt(step: int) -> str:
    return f"iter {step - 1}: loss {loss_at(step):.4f}, time 123.46ms, mfu 42.34%\n"


RECORDS: dict[str, Callable[[int], str]] = {
    record.__name__: record
    for record in (
        megatron,
        neox,
        composer_text,
        internevo,
        nanotron,
        torchtitan,
        olmo_core,
        maxtext,
        nanochat,
        modded_nanogpt,
        llm_c,
        nanogpt,
    )
}
