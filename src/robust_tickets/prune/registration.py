"""Register the pruned models with transformers' auto classes, for every registered backbone."""

from __future__ import annotations

from robust_tickets.progress import warn
from robust_tickets.prune.modeling import auto_classes, ticket_class, ticket_config
from robust_tickets.registry import BACKBONES


def register() -> None:
    """Register ``Ticket<Family>Config`` and its models; a second call changes nothing."""
    from transformers import AutoConfig

    for name in BACKBONES.names():
        try:
            config_class = ticket_config(BACKBONES.get(name).family)
            AutoConfig.register(config_class.model_type, config_class, exist_ok=True)
            for auto, stock in auto_classes(config_class.stock_class):
                auto.register(config_class, ticket_class(stock), exist_ok=True)
        except Exception as problem:  # another package's backbone must not keep ours from being registered
            warn(f"the backbone {name!r} could not be registered with transformers: {problem}")
