"""The built-in models, which the command line can list without importing torch."""

MODELS: dict[str, tuple[str, ...]] = {
    "mqan": ("mqan", "catt", "satt", "s2s"),
    "classifier": ("classifier",),
    "meta_lstm": ("meta-lstm", "lstm", "hyper-lstm", "shared-lstm", "psp-mtl", "ssp-mtl", "asp-mtl"),
    "joint_many_task": ("jmt",),
    "shared_memory": ("arc-i", "arc-ii", "me-lstm", "mt-cnn", "mt-dnn", "nbow"),
    "recurrent_modules": ("ns-mtl", "cross-stitch", "sluice", "girnet"),
}
"""Maps the file of each model family to the names of its models."""

FAMILIES: dict[str, str] = {
    name: f"decabench.models.{file}:FAMILY" for file, names in MODELS.items() for name in names
}
"""Maps each model's name to the `module:object` of its family.

Custom families aren't listed here. Users refer to them as `package.module:object`.
"""
