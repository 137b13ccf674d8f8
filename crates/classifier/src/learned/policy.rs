//! When to train again: plain data, and no clock.

/// When a learned index is trained again.
///
/// An update is a rule inserted or removed. It counts when its version is settled, since
/// training ignores changes that may still be undone. A caller that wants a pause in seconds
/// between two trainings asks for work later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TrainingPolicy {
    /// The fewest rules that are worth a training.
    pub rules_min: usize,
    /// The fewest updates since the last training began.
    pub updates_min: usize,
    /// The percentage of the last training's coverage below which a new one is due.
    pub coverage_kept_percent: u32,
}

impl Default for TrainingPolicy {
    /// The default policy. In a model check, whose tables are small, every change is followed
    /// by a training.
    fn default() -> TrainingPolicy {
        if cfg!(thalweg_model) {
            return TrainingPolicy {
                rules_min: 2,
                updates_min: 1,
                coverage_kept_percent: 101,
            };
        }
        TrainingPolicy {
            rules_min: 1_000,
            updates_min: 1_000,
            coverage_kept_percent: 90,
        }
    }
}

/// The changes since the last training.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Changes {
    /// Updates settled since the last training began: it knows none of them, the next one may.
    pub(crate) updates: usize,
    /// Whether a training has begun and not ended.
    pub(crate) is_training: bool,
    /// The share of the rules that the last training covered, if there was one.
    pub(crate) share: Option<f64>,
    /// The number of rules when the last training began.
    pub(crate) rules: usize,
}

impl TrainingPolicy {
    /// Whether a training is due.
    pub(crate) fn is_due(&self, changes: &Changes, rules: usize, share: f64) -> bool {
        if changes.is_training || rules < self.rules_min || changes.updates < self.updates_min {
            return false;
        }
        match changes.share {
            None => true,
            // After a training that covered nothing, another follows when the rules have
            // changed.
            Some(0.0) => changes.updates >= changes.rules / 2,
            Some(before) => share < before * f64::from(self.coverage_kept_percent) / 100.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_waits_for_updates_and_for_coverage_to_fall() {
        let policy = TrainingPolicy::default();
        let mut changes = Changes {
            updates: 1_000,
            ..Changes::default()
        };
        assert!(policy.is_due(&changes, 1_000, 0.0));
        assert!(!policy.is_due(&changes, 999, 0.0));
        changes.share = Some(0.8);
        assert!(!policy.is_due(&changes, 1_000, 0.73));
        assert!(policy.is_due(&changes, 1_000, 0.71));
        changes.is_training = true;
        assert!(!policy.is_due(&changes, 1_000, 0.71));
        changes = Changes {
            updates: 999,
            share: Some(0.8),
            ..Changes::default()
        };
        assert!(!policy.is_due(&changes, 1_000, 0.1));
        changes.share = Some(0.0);
        changes.rules = 4_000;
        changes.updates = 1_999;
        assert!(!policy.is_due(&changes, 4_000, 0.0));
        changes.updates = 2_000;
        assert!(policy.is_due(&changes, 4_000, 0.0));
    }
}
