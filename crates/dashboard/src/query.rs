//! Reads the question about a packet from a request's query.

use percent_encoding::percent_decode_str;

use crate::desk::{Explanation, ExplanationKind};

/// Reads `flow=..`, `bridge=..` and `kind=..`; `flow` is required.
///
/// # Errors
/// If something else is there, a value is no text, or no flow is.
pub(crate) fn explanation(query: &str) -> Result<Explanation, String> {
    let (mut flow, mut bridge, mut kind) = (None, None, ExplanationKind::Entry);
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        let value = value.replace('+', " ");
        let value = percent_decode_str(&value).decode_utf8();
        let value = value.map_err(|_| format!("{key}: the value is not UTF-8"))?;
        let value = value.trim().to_owned();
        match (key, value.as_str()) {
            ("flow", _) => flow = Some(value).filter(|value| !value.is_empty()),
            ("bridge", _) => bridge = Some(value).filter(|value| !value.is_empty()),
            ("kind", "entry") => kind = ExplanationKind::Entry,
            ("kind", "drop") => kind = ExplanationKind::Drop,
            ("kind", "steps") => kind = ExplanationKind::Steps,
            ("kind", other) => return Err(format!("{other}: kind is entry, drop or steps")),
            (other, _) => return Err(format!("{other}: ask by flow=, bridge= and kind=")),
        }
    }
    let flow = flow.ok_or("give a flow: a packet's fields, such as in_port=1,udp")?;
    // An option would ask for more than an explanation.
    let arguments: Vec<String> = bridge.into_iter().chain([flow]).collect();
    match arguments.iter().find(|text| text.starts_with('-')) {
        Some(option) => Err(format!("{option}: this is an option, not a flow")),
        None => Ok(Explanation { kind, arguments }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_decoded() {
        let asked = explanation("bridge=br0&flow=in_port%3D1%2Cudp+&kind=drop");
        let expected = Explanation {
            kind: ExplanationKind::Drop,
            arguments: vec!["br0".to_owned(), "in_port=1,udp".to_owned()],
        };
        assert_eq!(asked, Ok(expected));
        let asked = explanation("bridge=&flow=a").expect("a flow is there");
        assert_eq!(asked.arguments, ["a"]);
        assert_eq!(asked.kind, ExplanationKind::Entry);
    }

    #[test]
    fn other_questions_are_refused() {
        for (query, part) in [
            ("", "give a flow"),
            ("flow=", "give a flow"),
            ("flow=%ff", "not UTF-8"),
            ("flow=a&kind=all", "kind is entry"),
            ("flow=a&packet=00", "ask by flow="),
            ("flow=-generate", "an option"),
            ("bridge=--names&flow=a", "an option"),
        ] {
            let refused = explanation(query).expect_err(query);
            assert!(refused.contains(part), "{query}: {refused}");
        }
    }
}
