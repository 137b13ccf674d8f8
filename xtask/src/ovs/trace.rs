//! Parses the text of `ofproto/trace`.
//!
//! The output has a part for each pass through the pipeline: the first, and one more for each
//! recirculation that the switch follows. Each part ends in three lines; the last two are the
//! cache entry of that pass:
//!
//! ```text
//! Final flow: unchanged
//! Megaflow: recirc_id=0,eth,in_port=1,dl_type=0x0800,nw_frag=no
//! Datapath actions: 2
//! ```

use anyhow::Context;

const FINAL_FLOW: &str = "Final flow: ";
const MEGAFLOW: &str = "Megaflow: ";
const ACTIONS: &str = "Datapath actions: ";

/// Open vSwitch's answer to one packet in its first pass, and the whole text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The flow at the end, or `unchanged`.
    pub final_flow: String,
    /// The cache entry's match: the bits that were examined, in flow syntax.
    pub megaflow: String,
    /// The cache entry's actions, in datapath syntax.
    pub datapath_actions: String,
    /// Whether the slow path must handle the packet (a packet to the controller, a learned
    /// rule).
    pub is_slow_path: bool,
    /// The number of passes; more than one after a recirculation.
    pub pass_count: usize,
    /// The daemon's whole text.
    pub text: String,
}

impl Trace {
    /// Parses the first pass of the daemon's text.
    ///
    /// # Errors
    /// If one of the three lines is missing.
    pub fn parse(text: String) -> anyhow::Result<Self> {
        let first = |label: &str| {
            let found = text.lines().find_map(|line| line.strip_prefix(label));
            found.map(|rest| rest.trim().to_owned()).with_context(|| {
                format!("the trace has no line that begins with `{label}`:\n{text}")
            })
        };
        Ok(Self {
            final_flow: first(FINAL_FLOW)?,
            megaflow: first(MEGAFLOW)?,
            datapath_actions: first(ACTIONS)?,
            is_slow_path: text.contains("This flow is handled by the userspace slow path"),
            pass_count: text
                .lines()
                .filter(|line| line.starts_with(MEGAFLOW))
                .count(),
            text,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_pass_is_taken() {
        let text = "Flow: tcp,in_port=1\n\nbridge(\"br0\")\n-------------\n 0. priority 1\n    \
                    output:2\n\nFinal flow: unchanged\nMegaflow: recirc_id=0,tcp,in_port=1\n\
                    Datapath actions: ct,recirc(0x1)\n\nFinal flow: tcp\n\
                    Megaflow: recirc_id=0x1,tcp\nDatapath actions: 2\n";
        let trace = Trace::parse(text.to_owned()).unwrap();
        assert_eq!(trace.final_flow, "unchanged");
        assert_eq!(trace.megaflow, "recirc_id=0,tcp,in_port=1");
        assert_eq!(trace.datapath_actions, "ct,recirc(0x1)");
        assert_eq!((trace.pass_count, trace.is_slow_path), (2, false));
    }

    #[test]
    fn an_incomplete_text_is_an_error() {
        let error = Trace::parse("Final flow: unchanged\n".to_owned()).unwrap_err();
        assert!(error.to_string().contains("Megaflow"), "{error}");
    }
}
