"""What a runner is asked to do: typed, validated, unknown keys refused.

Pages build these, the queue stores them as JSON, each runner reads its own kind back. Nothing here
imports torch: the same checks run in the browser's form, in the worker and on a bare GPU machine.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from models.errors import InvalidSpec

Device = Literal["cpu", "cuda"]
Link = Literal["on", "off"]
Mode = Literal["graph", "eager", "exposed"]
Clock = Literal["wall_eager", "wall_served", "wall_graph", "replay", "replay_no_allreduce"]

# A GPU is named by its index in PCI bus order or by its UUID; UUIDs are what is stored.
GpuName = (
    Annotated[int, Field(ge=0, le=1023)]
    | Annotated[str, Field(pattern=r"^(GPU|MIG)-[0-9A-Za-z/-]{4,80}$")]
)

DEFAULT_SIZES = tuple(2**k for k in range(9, 27))  # 512 B to 64 MB
DEFAULT_CALLS_PER_STEP = 57  # 28 layers x 2 + the embedding: Qwen2.5-1.5B
MAX_MESSAGE_BYTES = 2**33


class _Spec(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class _Placed(_Spec):
    """Devices and time limit, which every measuring job has."""

    device: Device = "cpu"
    gpus: list[GpuName] = Field(default_factory=list, max_length=64)
    link: Link | None = None
    time_limit_s: float = Field(default=600, gt=0, le=7 * 24 * 3600)

    @model_validator(mode="after")
    def _devices_named(self) -> Self:
        if self.device == "cuda" and not self.gpus:
            raise ValueError("name the GPUs to use")
        if self.device == "cpu" and self.gpus:
            raise ValueError("CPU ranks take no GPUs")
        if len(set(self.gpus)) != len(self.gpus):
            raise ValueError("the same GPU is named twice")
        return self


class AllReduceSpec(_Placed):
    """One AllReduce sweep: one arm, all sizes and modes, several rounds."""

    kind: Literal["allreduce"] = "allreduce"
    ranks: int | None = Field(
        default=None, ge=1, le=64, description="CPU ranks; GPUs count themselves"
    )
    sizes_bytes: list[int] = Field(default=list(DEFAULT_SIZES), min_length=1, max_length=64)
    dtype: Literal["bfloat16", "float16", "float32"] = "bfloat16"
    modes: list[Mode] = Field(default=["eager"], min_length=1, max_length=3)
    rounds: int = Field(default=3, ge=1, le=100)
    calls_per_graph: int = Field(default=DEFAULT_CALLS_PER_STEP, ge=1, le=1000)
    samples_per_round: int = Field(default=30, ge=3, le=10_000)
    size_time_limit_s: float = Field(default=60, gt=0, le=3600, description="a hang is a result")
    buffers: Literal["torch", "nccl"] = Field(
        default="torch",
        description="who allocates the messages: torch as engines do, or NCCL, which may map them "
        "into its peers",
    )
    planned_rounds: int | None = Field(
        default=None, ge=1, le=1000, description="rounds of this arm in its whole evaluation"
    )

    @property
    def n_ranks(self) -> int:
        """How many processes take part."""
        return len(self.gpus) if self.device == "cuda" else int(self.ranks or 2)

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.device == "cuda" and self.ranks not in (None, len(self.gpus)):
            raise ValueError("on GPUs there is one rank a GPU: leave ranks out")
        width = 4 if self.dtype == "float32" else 2
        for size in self.sizes_bytes:
            if size <= 0 or size > MAX_MESSAGE_BYTES:
                raise ValueError(f"a message of {size} bytes is outside 1 B to 8 GiB")
            if size % width:
                raise ValueError(
                    f"a message of {size} bytes is no whole number of {self.dtype} values"
                )
        if len(set(self.sizes_bytes)) != len(self.sizes_bytes):
            raise ValueError("a size is named twice")
        if len(set(self.modes)) != len(self.modes):
            raise ValueError("a mode is named twice")
        if self.device == "cpu" and set(self.modes) != {"eager"}:
            raise ValueError("CUDA graphs need GPUs: on CPU ranks only the eager mode exists")
        if self.device == "cpu" and self.buffers != "torch":
            raise ValueError("NCCL allocates memory on GPUs only")
        if self.device == "cpu" and self.link is not None:
            raise ValueError("CPU ranks have no GPU link to switch on or off")
        return self


class DecodeSpec(_Placed):
    """Decode steps of a plain decoder at one TP size."""

    kind: Literal["decode"] = "decode"
    model: dict[str, Any] = Field(description="content of a Hugging Face config.json")
    model_name: str | None = Field(default=None, max_length=120)
    tp: int = Field(default=1, ge=1, le=64)
    batches: list[Annotated[int, Field(ge=1, le=4096)]] = Field(
        default=[1], min_length=1, max_length=16
    )
    kv_lens: list[Annotated[int, Field(ge=1, le=1_048_576)]] = Field(
        default=[1024], min_length=1, max_length=16
    )
    clocks: list[Clock] = Field(default=["wall_eager"], min_length=1, max_length=5)
    dtype: Literal["bfloat16", "float16", "float32"] = "bfloat16"
    rounds: int = Field(default=3, ge=1, le=100)
    steps_per_round: int = Field(default=100, ge=5, le=100_000)
    compile: bool = Field(default=True, description="fuse with torch.compile, on GPUs")
    fusion: Literal["default", "combo", "matvec", "max-autotune"] = Field(
        default="default", description="how torch.compile fuses: see runners.decoder.fused"
    )
    omp_num_threads: int | None = Field(default=None, ge=1, le=1024)
    cpu_affinity: list[Annotated[int, Field(ge=0, le=4095)]] | None = None
    cuda_device_max_connections: int | None = Field(default=None, ge=1, le=32)

    @model_validator(mode="after")
    def _possible(self) -> Self:
        for name in ("batches", "kv_lens", "clocks"):
            if len(set(getattr(self, name))) != len(getattr(self, name)):
                raise ValueError(f"{name}: the same value is named twice")
        if self.device == "cuda" and len(self.gpus) != self.tp:
            raise ValueError(f"tensor parallelism over {self.tp} needs exactly {self.tp} GPUs")
        if self.device == "cpu" and set(self.clocks) != {"wall_eager"}:
            raise ValueError("CUDA graphs need GPUs: on CPU ranks only wall_eager exists")
        if self.device == "cpu" and self.link is not None:
            raise ValueError("CPU ranks have no GPU link to switch on or off")
        return self


class P2PSpec(_Placed):
    """Does peer-to-peer work? Three tiers for each pair, and copy bandwidth and latency."""

    kind: Literal["p2p"] = "p2p"
    ranks: int | None = Field(default=None, ge=2, le=16, description="CPU ranks, for a rehearsal")
    sizes_bytes: list[Annotated[int, Field(ge=4, le=2**32)]] = Field(
        default=[4096, 1 << 20, 1 << 28], min_length=1, max_length=16
    )
    bandwidth_bytes: int = Field(default=1 << 28, ge=4096, le=2**32)
    tier_time_limit_s: float = Field(default=60, gt=0, le=3600)
    engine_under_load: bool = Field(
        default=False, description="a minute of load: a faulty driver can reset the machine"
    )
    load_s: float = Field(default=60, ge=1, le=24 * 3600, description="how long the load lasts")
    vllm_python: str | None = Field(
        default=None, max_length=4096, description="whose own all-reduce the load runs; null: NCCL"
    )

    @model_validator(mode="after")
    def _pair(self) -> Self:
        if self.device == "cuda" and len(self.gpus) < 1:
            raise ValueError("name the GPUs to check")
        return self


class TopologySpec(_Spec):
    """Read GPUs and links from the driver."""

    kind: Literal["topology"] = "topology"
    time_limit_s: float = Field(default=60, gt=0, le=600)


class Workload(_Spec):
    """What a server is asked to do in one round."""

    concurrency: int | None = Field(default=1, ge=1, le=4096, description="null: no cap")
    num_prompts: int = Field(default=10, ge=1, le=100_000)
    input_len: int = Field(default=1024, ge=1, le=1_048_576)
    output_len: int = Field(default=256, ge=1, le=1_048_576)
    request_rate: float | None = Field(default=None, gt=0, description="requests/s; null: at once")
    scenario: Literal[
        "single_stream", "online", "long_output", "short_output", "abnormal", "pressure", "soak"
    ] = "online"

    @property
    def warmups(self) -> int:
        """Requests sent and thrown away first: one for each that will be in flight."""
        return min(self.concurrency or 1, self.num_prompts)


class ServingArm(_Spec):
    """One configuration of the engine under test; replica k takes the k-th ``tp`` GPUs."""

    gpus: list[GpuName] = Field(default_factory=list, max_length=64)
    tp: int = Field(default=1, ge=1, le=64)
    replicas: int = Field(default=1, ge=1, le=64)
    link: Link | None = None
    custom_all_reduce: bool = True
    engine_args: dict[str, str | int | float | bool | None] = Field(default_factory=dict)
    cpu_cores: str | None = Field(
        default=None, pattern=r"^[0-9]+([-,|][0-9]+)*$", description="CPU build: one set a rank"
    )


class _Served(_Spec):
    """A server under test: one that is started for it, or one that already runs."""

    device: Device = "cuda"
    model: str | None = Field(default=None, min_length=1, max_length=4096, pattern=r"^[^-]")
    model_config_json: dict[str, Any] | None = None
    model_name: str | None = Field(default=None, max_length=120)
    load_format: Literal["auto", "dummy"] = "auto"
    arm: ServingArm = Field(default_factory=ServingArm)
    base_url: str | None = Field(default=None, pattern=r"^https?://", max_length=2000)
    vllm_python: str | None = Field(default=None, max_length=4096)
    output_check: bool = True
    ready_time_limit_s: float = Field(default=600, gt=0, le=7200)
    time_limit_s: float = Field(default=1800, gt=0, le=7 * 24 * 3600)

    @model_validator(mode="after")
    def _startable(self) -> Self:
        arm = self.arm
        if self.base_url is not None:
            if arm.engine_args:
                raise ValueError("a server that already runs takes no engine flags")
            return self
        if self.model is None and self.model_config_json is None:
            raise ValueError("name a model, or give the config.json of a built-in shape")
        if self.model_config_json is not None and self.load_format != "dummy":
            raise ValueError("a shape without weights needs dummy weights")
        needed = arm.tp * arm.replicas
        if self.device == "cuda" and len(arm.gpus) != needed:
            raise ValueError(f"{arm.replicas} x TP={arm.tp} needs exactly {needed} GPUs")
        if self.device == "cpu" and (arm.gpus or arm.link is not None):
            raise ValueError("a server on the CPU has neither GPUs nor a link to switch")
        if self.device == "cuda" and arm.cpu_cores:
            raise ValueError("CPU cores are chosen for the CPU build only")
        if len(set(arm.gpus)) != len(arm.gpus):
            raise ValueError("the same GPU is named twice")
        return self


class ServingSpec(_Served):
    """One server start; every workload once in each of its rounds."""

    kind: Literal["serving"] = "serving"
    workloads: list[Workload] = Field(
        default_factory=lambda: [Workload()], min_length=1, max_length=32
    )
    round: int = Field(default=0, ge=0, description="number of the first round")
    rounds: int = Field(default=1, ge=1, le=100, description="rounds within this start")
    seed: int = Field(default=1000, ge=0, description="round r uses seed + r, in every arm")
    warmup_round: bool = Field(default=True, description="one discarded round after the start")
    workload_time_limit_s: float = Field(default=900, gt=0, le=24 * 3600)


class SoakSpec(_Served):
    """Sustained load on one server: errors, drift and repeated output checks over time."""

    kind: Literal["soak"] = "soak"
    workload: Workload = Field(default_factory=lambda: Workload(concurrency=4, scenario="soak"))
    duration_s: float = Field(default=3600, gt=0, le=7 * 24 * 3600)
    window_s: float = Field(default=60, gt=0, le=3600, description="one value a metric a window")
    check_every_s: float = Field(default=600, gt=0, le=24 * 3600)
    request_time_limit_s: float = Field(default=300, gt=0, le=3600)
    seed: int = Field(default=1000, ge=0)
    time_limit_s: float = Field(default=5400, gt=0, le=7 * 24 * 3600)

    @model_validator(mode="after")
    def _lasts(self) -> Self:
        if self.time_limit_s <= self.duration_s:
            raise ValueError("the time limit must be longer than the load, for the start is in it")
        if self.workload.scenario == "abnormal":
            raise ValueError("abnormal input is no sustained load")
        return self


Spec = Annotated[
    AllReduceSpec | DecodeSpec | P2PSpec | TopologySpec | ServingSpec | SoakSpec,
    Field(discriminator="kind"),
]
_ADAPTER: TypeAdapter[Spec] = TypeAdapter(Spec)

KINDS = ("allreduce", "decode", "p2p", "topology", "serving", "soak")

# kind -> the program that carries it out, started as `python -m <module>`
PROGRAMS: dict[str, str] = {
    "allreduce": "runners.allreduce",
    "p2p": "runners.p2p",
    "serving": "runners.serving",
    "soak": "runners.soak",
    "decode": "runners.decode",
    "topology": "runners.topology",
}


def parse_spec(data: Any) -> Spec:
    """Read a spec of any kind from decoded JSON.

    Raises:
        InvalidSpec: One clear sentence that names the first field that does not fit.
    """
    kind = data.get("kind") if isinstance(data, dict) else None
    if kind not in KINDS:
        raise InvalidSpec(
            f"There is no benchmark called {kind!r}.", f"The kinds are {', '.join(KINDS)}."
        )
    try:
        return _ADAPTER.validate_python(data)
    except ValidationError as error:
        first = error.errors()[0]
        # the union's tag and pydantic's internal steps are of no use to a person
        place = ".".join(str(part) for part in first["loc"] if str(part) not in KINDS)
        message = first["msg"].removeprefix("Value error, ")
        where = f"{place}: " if place else ""
        raise InvalidSpec(
            f"This run cannot be started as asked: {where}{message}.",
            "Change that field and start again.",
            detail=str(error),
        ) from None
