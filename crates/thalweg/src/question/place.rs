//! Explains an error in FLOW, and points at its place.
//!
//! ```text
//!   FLOW:1:9: unknown port `x`; give its number, or the name of a port that exists
//!     in_port=x,tcp
//!             ^
//! ```

use thalweg_pipeline::text::TextError;

use thalweg_command::failure::bad_input;

/// Characters of FLOW shown on either side of the place.
const SHOWN: usize = 60;

/// The parser's error, worded for a user who describes a packet and sees only their own text.
pub(super) fn explain(flow: &str, error: &TextError) -> anyhow::Error {
    let place = error.place();
    let said = error.to_string();
    let what = match error {
        TextError::Unsupported { name, .. } => {
            format!("`{name}` is not supported; leave it out")
        }
        TextError::Prerequisite { field, needs, .. } => {
            format!("`{field}` needs {needs}; say so as well")
        }
        _ => {
            let start = format!("{place}: ");
            said.strip_prefix(&start).unwrap_or(&said).to_owned()
        }
    };
    let (line, column) = (place.line, place.column);
    let pointed = pointed_at(flow, line as usize, column as usize);
    bad_input(format!("FLOW:{line}:{column}: {what}{pointed}"))
}

/// The line with a caret below the place; empty if it cannot be shown.
fn pointed_at(flow: &str, line: usize, column: usize) -> String {
    let text = flow.split('\n').nth(line.saturating_sub(1));
    let text: Vec<char> = text.unwrap_or_default().trim_end().chars().collect();
    if text.is_empty() || text.iter().any(|character| character.is_control()) {
        return String::new();
    }
    let index = column.saturating_sub(1).min(text.len());
    let start = index.saturating_sub(SHOWN);
    let end = text.len().min(index + SHOWN);
    let shown: String = text[start..end].iter().collect();
    format!("\n  {shown}\n  {}^", " ".repeat(index - start))
}

#[cfg(test)]
mod tests {
    use thalweg_pipeline::text::parse_match;

    use super::*;

    fn said(flow: &str) -> String {
        let error = parse_match(flow).expect_err("it is wrong");
        explain(flow, &error).to_string()
    }

    #[test]
    fn the_place_is_pointed_at() {
        let expected = "FLOW:1:9: unknown port `x`; give its number, or the name of a port that \
                        exists\n  in_port=x,tcp\n          ^";
        assert_eq!(said("in_port=x,tcp"), expected);
    }

    #[test]
    fn advice_is_about_packets_and_not_about_rules() {
        let expected = "FLOW:1:1: `nd_reserved` is not supported; leave it out\n  nd_reserved=1\n  \
                        ^";
        assert_eq!(said("nd_reserved=1"), expected);
        let expected = "FLOW:1:11: `ip_frag` needs `ip` or `ipv6`; say so as well";
        assert!(said("in_port=1,ip_frag=yes").starts_with(expected));
    }

    #[test]
    fn a_long_flow_is_shown_around_the_place() {
        let flow = "arp,".repeat(50) + "in_port=x," + &"arp,".repeat(50);
        let said = said(&flow);
        let lines: Vec<&str> = said.lines().collect();
        assert!(lines[1].len() <= 2 * SHOWN + 2, "{said}");
        let column = lines[2].len() - 1;
        assert_eq!(&lines[1][column..=column], "x", "{said}");
    }
}
