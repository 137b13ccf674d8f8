//! ClassBench filter sets as text.
//!
//! 1. No text makes the parser panic.
//! 2. A printed filter reads back as the same filter.
//! 3. The matches of a filter are conditions that the switch reads. No two of them overlap,
//!    and there are no more than two ranges can need.

use thalweg_pipeline::text;
use thalweg_workload::{Extra, Filter, parse_filters};

/// Most matches of a filter: masks that one port range can need, squared, for TCP and UDP.
const MATCHES_MAX: usize = 2 * 30 * 30;
/// Filters whose matches are checked; two ranges can need hundreds each.
const FILTERS_MAX: usize = 4;

/// Runs one input.
pub fn run(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let Ok(filters) = parse_filters("fuzz", &text) else {
        return;
    };
    for filter in &filters {
        let printed = filter.to_string();
        let again = parse_filters("fuzz", &printed);
        assert_eq!(again.as_deref(), Ok(&[*filter][..]), "{printed}");
    }
    filters.iter().take(FILTERS_MAX).for_each(check_matches);
}

fn check_matches(filter: &Filter) {
    for extra in [Extra::Ignore, Extra::Match] {
        let matches = filter.matches(extra);
        assert!((1..=MATCHES_MAX).contains(&matches.len()), "{filter}");
        for matching in &matches {
            let printed = matching.to_string();
            let read = text::parse_match(&printed);
            assert!(read.is_ok(), "{filter}: {printed}: {read:?}");
        }
        for pair in matches.windows(2) {
            assert!(!pair[0].overlaps(&pair[1]), "{filter}");
        }
    }
}
