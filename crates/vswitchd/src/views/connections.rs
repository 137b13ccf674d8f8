//! The tracked connections (`dpctl/dump-conntrack`).

use thalweg_conntrack::text::{EntryStyle, entry_text};
use thalweg_switch::Switch;

/// The connections that a command asks for: `[-m] [-s] [dp] [zone=N]`.
///
/// # Errors
/// If an argument is neither an option, a zone nor a datapath by `is_datapath`.
pub fn dump_connections(
    switch: &mut Switch,
    arguments: &[String],
    is_datapath: &dyn Fn(&str) -> bool,
) -> Result<String, String> {
    let mut style = EntryStyle::default();
    let mut rest = Vec::new();
    for argument in arguments {
        match argument.as_str() {
            "-m" | "--more" => style.is_verbose = true,
            "-s" | "--statistics" => style.has_statistics = true,
            word => rest.push(word),
        }
    }
    let zone = take_zone(&mut rest);
    let begins_so = rest.first().is_some_and(|name| is_datapath(name));
    if let Some(other) = rest.get(usize::from(begins_so)) {
        return Err(format!("{other}: there is no such datapath"));
    }
    let mut text = String::new();
    switch.each_connection(zone, |_, entry| {
        text += &entry_text(&entry, style);
        text.push('\n');
    });
    Ok(text)
}

/// Reads `zone=N`, if it is the last argument.
fn take_zone(words: &mut Vec<&str>) -> Option<u16> {
    let zone = words.last()?.strip_prefix("zone=")?.parse().ok()?;
    words.pop();
    Some(zone)
}
