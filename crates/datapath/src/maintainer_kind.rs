//! The kinds of maintainer, by their names in a configuration.

/// The kind of maintainer of a datapath.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MaintainerKind {
    /// [`Incremental`](crate::Incremental).
    Incremental,
    /// [`Barrier`](crate::Barrier).
    Barrier,
    /// [`Revalidate`](crate::Revalidate).
    Revalidate,
    /// [`Lazy`](crate::Lazy).
    Lazy,
    /// [`Flush`](crate::Flush).
    Flush,
}

impl MaintainerKind {
    /// All kinds.
    pub const ALL: [MaintainerKind; 5] = [
        MaintainerKind::Incremental,
        MaintainerKind::Barrier,
        MaintainerKind::Revalidate,
        MaintainerKind::Lazy,
        MaintainerKind::Flush,
    ];

    /// Kinds that never give a packet an old answer once a change is acknowledged.
    pub const STRICT: [MaintainerKind; 4] = [
        MaintainerKind::Incremental,
        MaintainerKind::Barrier,
        MaintainerKind::Revalidate,
        MaintainerKind::Flush,
    ];

    /// The name in configurations and reports.
    pub fn name(self) -> &'static str {
        match self {
            MaintainerKind::Incremental => "incremental",
            MaintainerKind::Barrier => "barrier",
            MaintainerKind::Revalidate => "revalidate",
            MaintainerKind::Lazy => "lazy",
            MaintainerKind::Flush => "flush",
        }
    }

    /// Whether it needs the record of what entries depend on.
    pub(crate) fn needs_dependencies(self) -> bool {
        matches!(self, MaintainerKind::Incremental | MaintainerKind::Barrier)
    }
}

impl std::str::FromStr for MaintainerKind {
    type Err = UnknownMaintainer;

    fn from_str(name: &str) -> Result<Self, UnknownMaintainer> {
        let known = MaintainerKind::ALL
            .into_iter()
            .find(|kind| kind.name() == name);
        known.ok_or_else(|| UnknownMaintainer {
            name: name.to_owned(),
        })
    }
}

/// The error for an unknown maintainer.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "there is no maintainer {name:?}; choose \"incremental\", \"barrier\", \"revalidate\", \
     \"lazy\" or \"flush\""
)]
pub struct UnknownMaintainer {
    /// The name given.
    pub name: String,
}
