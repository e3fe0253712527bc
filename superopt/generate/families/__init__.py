"""The grammar: the operators, attributes, inputs and constants that are enumerated. Data only; the rules are found.

The inputs of a family are small tensors of fixed sizes. Sizes that must agree for many operators to compose are equal
here (square matrices). Generalisation and proof find out later which of these equalities a rule needs.
"""

from dataclasses import replace

from superopt.generate.families.activation import ACTIVATION
from superopt.generate.families.batched import BATCHED
from superopt.generate.families.borders import BORDERS
from superopt.generate.families.channels import CHANNELS
from superopt.generate.families.commuting import COMMUTING
from superopt.generate.families.conv import CONV_FAMILIES
from superopt.generate.families.conv_parts import CONV_PARTS
from superopt.generate.families.copies import COPIES
from superopt.generate.families.definitions import DEFINITIONS
from superopt.generate.families.einsum import EINSUM
from superopt.generate.families.elementwise import ELEMENTWISE
from superopt.generate.families.extrema import EXTREMA
from superopt.generate.families.filtering import FILTERING
from superopt.generate.families.flattened import FLATTENED
from superopt.generate.families.folded import FOLDED_SCALES
from superopt.generate.families.forms import FORMS
from superopt.generate.families.fused import FUSED
from superopt.generate.families.grouped import GROUPED
from superopt.generate.families.images import IMAGES
from superopt.generate.families.layout import LAYOUT
from superopt.generate.families.linear import LINEAR
from superopt.generate.families.lookups import LOOKUPS
from superopt.generate.families.matrix import MATRIX
from superopt.generate.families.nested import NESTED
from superopt.generate.families.normalization import NORMALIZATION
from superopt.generate.families.places import PLACES
from superopt.generate.families.pointwise import POINTWISE
from superopt.generate.families.pool import POOL
from superopt.generate.families.products import PRODUCTS
from superopt.generate.families.quantized import QUANTIZED
from superopt.generate.families.rearrange import REARRANGE
from superopt.generate.families.recurrent import RECURRENT
from superopt.generate.families.reductions import REDUCTIONS
from superopt.generate.families.resize import RESIZE
from superopt.generate.families.rotary import ROTARY
from superopt.generate.families.rows import ROWS
from superopt.generate.families.scalar import SCALAR
from superopt.generate.families.scaled import SCALED
from superopt.generate.families.select import SELECT
from superopt.generate.families.selections import SELECTIONS
from superopt.generate.families.shared_heads import SHARED_HEADS
from superopt.generate.families.shifted import SHIFTED
from superopt.generate.families.spread import SPREAD
from superopt.generate.families.stacks import STACKS
from superopt.generate.families.strides import STRIDES
from superopt.generate.families.taso import TASO
from superopt.generate.families.truth import TRUTH
from superopt.generate.families.unit_axes import UNIT_AXES
from superopt.generate.families.wide import WIDE
from superopt.generate.families.windows import WINDOWS
from superopt.generate.families.written import WRITTEN
from superopt.generate.grammar import Family

__all__ = ["FAMILIES"]

# Nearly all other rules follow from those of sums, of matrices and of moved data, so these come first.
_FIRST = tuple(replace(f, wave=0) if f.wave == 1 else f for f in (*ELEMENTWISE, *LAYOUT, *MATRIX))

FAMILIES: tuple[Family, ...] = (
    *_FIRST,
    *LINEAR,
    *BATCHED,
    *CONV_FAMILIES,
    *FILTERING,
    *GROUPED,
    *CHANNELS,
    *CONV_PARTS,
    *SCALAR,
    *POINTWISE,
    *COMMUTING,
    *TRUTH,
    *SPREAD,
    *COPIES,
    *PRODUCTS,
    *PLACES,
    *EINSUM,
    *QUANTIZED,
    *WINDOWS,
    *DEFINITIONS,
    *REDUCTIONS,
    *EXTREMA,
    *RESIZE,
    *ACTIVATION,
    *NORMALIZATION,
    *SHIFTED,
    *REARRANGE,
    *FLATTENED,
    *SCALED,
    *NESTED,
    *UNIT_AXES,
    *SELECT,
    *SELECTIONS,
    *STACKS,
    *LOOKUPS,
    *ROWS,
    *IMAGES,
    *POOL,
    *STRIDES,
    *BORDERS,
    *FUSED,
    *ROTARY,
    *SHARED_HEADS,
    *RECURRENT,
    *TASO,
    *WIDE,
    *WRITTEN,
    *FORMS,
    *FOLDED_SCALES,
)
