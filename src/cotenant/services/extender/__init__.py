"""`cotenant extender`: our judgement beside an unchanged kube-scheduler."""
