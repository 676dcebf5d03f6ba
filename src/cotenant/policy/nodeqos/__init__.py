"""What a node should do now: who may run how much, who is helped, who must leave. Pure."""
