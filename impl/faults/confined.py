"""A fault in one place only: one layer, one dtype, with a cache or without, where a trace is recorded or not."""

from gnomon.impl.reference import Array, NumpyReference, Parameters, Pass


def confined(
    fault: type[NumpyReference],
    *,
    layer: int | None = None,
    dtype: str | None = None,
    cached: bool | None = None,
    traced: bool | None = None,
) -> type[NumpyReference]:
    """An implementation that commits the fault where all that is given holds, and is the sound one elsewhere."""
    faulty, sound = fault(), NumpyReference()

    def there(x: Array, p: Pass) -> bool:
        places = ((dtype, str(x.dtype)), (cached, p.start > 0), (traced, p.trace is not None))
        return all(wanted is None or wanted == here for wanted, here in places)

    class Confined(NumpyReference):
        """The fault in its place."""

        def forward(self, parameters: Parameters, tokens: Array, p: Pass) -> Array:
            if layer is not None:
                return super().forward(parameters, tokens, p)
            chosen = faulty if there(parameters["token_embedding"], p) else sound
            return chosen.forward(parameters, tokens, p)

        def block_of(self, x: Array, parameters: Parameters, i: int, p: Pass) -> Array:
            return (faulty if i == layer and there(x, p) else sound).block_of(x, parameters, i, p)

    return Confined
