//! Affinity scopes and the pods they cut a machine into.
