"""What a kubelet leaves on its node: names of cgroups, and folders of pods."""
