"""Firmament (Gog et al., OSDI 2016) on Quincy's flow networks (Isard et al., SOSP 2009): placement as min-cost flow."""
