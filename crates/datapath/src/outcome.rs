//! The outcome of maintenance: for one entry, and counted over many.

/// The work of a maintainer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Work {
    /// Entries looked at.
    pub examined: u64,
    /// Entries repaired in place because their answer changed.
    pub repaired: u64,
    /// Entries put in again because their region changed.
    pub moved: u64,
    /// Entries evicted.
    pub evicted: u64,
    /// Of all these, entries walked elsewhere: see [`Requests`](crate::Requests).
    pub walked_elsewhere: u64,
}

impl Work {
    /// Counts the outcome of one entry.
    pub fn count(&mut self, outcome: Outcome) {
        self.examined += 1;
        match outcome {
            Outcome::Unchanged => {}
            Outcome::Repaired => self.repaired += 1,
            Outcome::Narrowed | Outcome::Moved => self.moved += 1,
            Outcome::Evicted => self.evicted += 1,
        }
    }

    /// Adds other work, of another datapath or another time.
    pub fn add(&mut self, other: Work) {
        self.examined += other.examined;
        self.repaired += other.repaired;
        self.moved += other.moved;
        self.evicted += other.evicted;
        self.walked_elsewhere += other.walked_elsewhere;
    }

    /// Entries looked at that were right.
    pub fn falsely_affected(&self) -> u64 {
        self.examined - self.affected()
    }

    /// Entries that the change affected.
    pub fn affected(&self) -> u64 {
        self.repaired + self.moved + self.evicted
    }
}

/// The outcome for an entry.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Outcome {
    /// It was right.
    Unchanged,
    /// Its effects or the rules it met changed.
    Repaired,
    /// Its region became smaller.
    Narrowed,
    /// Its region changed, wider or elsewhere.
    Moved,
    /// It was evicted.
    Evicted,
}

impl Outcome {
    /// All outcomes.
    pub const ALL: [Outcome; 5] = [
        Outcome::Unchanged,
        Outcome::Repaired,
        Outcome::Narrowed,
        Outcome::Moved,
        Outcome::Evicted,
    ];

    /// The outcome's name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Unchanged => "unchanged",
            Outcome::Repaired => "repaired",
            Outcome::Narrowed => "narrowed",
            Outcome::Moved => "moved",
            Outcome::Evicted => "evicted",
        }
    }
}
