//! Seeded generators of rules, pipelines, traffic and changes.
