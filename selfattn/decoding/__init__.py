"""How targets are written, searched and scored by any model that follows :mod:`selfattn.models.protocol`."""
