"""The rock dialect: attention over views of memory, lazy page pointers, and the tiles that they are lowered to.

* `attrs`: transform maps and parameters; `ops`: `rock.transform`, `rock.deref`, `rock.yield`;
* `attention`: `rock.attention` and `rock.gridwise_attention_accel`; `merge`: `rock.merge_attention`;
* `tile_type`, `tile_ops`, `tile_reductions`: register tiles and LDS;
* `views`: helpers to walk and build chains of views.
"""

from xdsl.ir import Dialect

from xpaged.dialects.rock.attention import ATTENTION_OPS
from xpaged.dialects.rock.attrs import ROCK_ATTRS
from xpaged.dialects.rock.merge import MERGE_OPS
from xpaged.dialects.rock.ops import ROCK_OPS
from xpaged.dialects.rock.tile_ops import TILE_OPS
from xpaged.dialects.rock.tile_reductions import TILE_REDUCTIONS
from xpaged.dialects.rock.tile_type import TILE_ATTRS

Rock = Dialect("rock", [*ROCK_OPS, *ATTENTION_OPS, *MERGE_OPS, *TILE_OPS, *TILE_REDUCTIONS], [*ROCK_ATTRS, *TILE_ATTRS])
