"""``import robust_tickets.auto`` registers the pruned models with transformers' auto classes, which then load saved ones."""

from robust_tickets.prune.registration import register

register()
