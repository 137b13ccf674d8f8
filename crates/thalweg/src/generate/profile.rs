//! `thalweg generate profile`: writes and reads profiles of filter sets.
//!
//! A profile describes what a set of filters looks like ([`Shape`]). Its file is TOML with the
//! keys of [`SHAPE_KEYS`]. Each value is a text or a list of texts, one for each line of the
//! shape:
//!
//! ```toml
//! family = "ipv4"
//! sharing = ["6291 431 113"]
//! lengths = ["any exact 24: 0=1108 32=2163"]
//! service = ["6 any exact 36364"]
//! destination_ports = ["80=3042 443=47"]
//! ```

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::Deserialize;
use serde_json::json;
use thalweg_workload::{Profile, SHAPE_KEYS, Shape, parse_filters};
use toml::Spanned;

use super::destination::Destination;
use thalweg_command::console::Console;
use thalweg_command::failure::bad_input;
use thalweg_command::files::{contents_or, unpacked};

/// The command's arguments.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Name of a profile, or a profile file
    #[arg(
        long,
        value_name = "NAME|FILE.toml",
        default_value = "acl1",
        conflicts_with = "from"
    )]
    profile: String,
    /// Derive the profile from a ClassBench file (.xz is unpacked)
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    #[command(flatten)]
    destination: Destination,
}

/// Writes a profile.
///
/// # Errors
/// If it cannot be read, derived or written.
pub(super) fn execute(arguments: &Arguments, console: &Console) -> Result<()> {
    let (shape, origin) = match &arguments.from {
        Some(path) => {
            let name = path.display().to_string();
            let filters = parse_filters(&name, &unpacked(path)?).map_err(bad_input)?;
            let shape = Shape::of(&filters);
            let refused = |error| bad_input(format!("--from: {name}: {error}"));
            shape.check().map_err(refused)?;
            (shape, format!("counted in {name}"))
        }
        None => (read(&arguments.profile)?, arguments.profile.clone()),
    };
    let lengths = shape.lengths.len();
    let summary = json!({
        "origin": origin,
        "lengths": lengths,
        "services": shape.services.len(),
    });
    let text = format!("# {origin}\n{}", text_of(&shape));
    let sentence = format!("{lengths} pairs of lengths; {origin}");
    arguments
        .destination
        .write(&text, &sentence, summary, console)
}

/// Reads the shape of a named profile or of a file.
///
/// # Errors
/// If `name` is neither, or the file has an error; gives its place.
pub(super) fn read(name: &str) -> Result<Shape> {
    if let Ok(profile) = name.parse::<Profile>() {
        return Ok(Shape::built_in(profile));
    }
    if !name.ends_with(".toml") {
        let names: Vec<&str> = Profile::ALL.iter().map(|profile| profile.name()).collect();
        return Err(bad_input(format!(
            "--profile {name}: there is no such profile; choose of {}, openflow, or name a file \
             .toml",
            names.join(", ")
        )));
    }
    parse(
        name,
        &contents_or(Path::new(name), "give the profile as TOML")?,
    )
}

/// One text, or several.
#[derive(Deserialize)]
#[serde(untagged)]
enum Texts {
    One(String),
    Several(Vec<String>),
}

fn parse(name: &str, text: &str) -> Result<Shape> {
    type Keys = std::collections::BTreeMap<Spanned<String>, Spanned<Texts>>;
    let refused = |place: usize, what: &dyn std::fmt::Display| {
        let before = &text[..place.min(text.len())];
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|one| *one != '\n').count() + 1;
        bad_input(format!("{name}:{line}:{column}: {what}"))
    };
    let keys: Keys = toml::from_str(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        let what = error.message().trim().replace('\n', "; ");
        refused(start, &format!("{what}; give texts, or lists of texts"))
    })?;
    let mut shape = Shape::default();
    for (key, texts) in &keys {
        let lines = match texts.get_ref() {
            Texts::One(line) => std::slice::from_ref(line),
            Texts::Several(lines) => lines,
        };
        if !SHAPE_KEYS.contains(&key.get_ref().as_str()) {
            let keys = SHAPE_KEYS.join(", ");
            return Err(refused(
                key.span().start,
                &format!("there is no key {}; the keys are {keys}", key.get_ref()),
            ));
        }
        for line in lines {
            // A list has only one span, so the line is searched for within it.
            let span = texts.span();
            let inside = text
                .get(span.clone())
                .and_then(|list| list.find(line.as_str()));
            let added = shape.add(key.get_ref(), line);
            added.map_err(|error| refused(span.start + inside.unwrap_or(0), &error))?;
        }
    }
    shape.check().map_err(|error| refused(0, &error))?;
    Ok(shape)
}

/// Formats the shape as a profile file.
fn text_of(shape: &Shape) -> String {
    let lines = shape.lines();
    let mut text = String::new();
    for key in SHAPE_KEYS {
        let of_key: Vec<String> = (lines.iter())
            .filter(|(other, _)| *other == key)
            .map(|(_, line)| format!("{line:?}"))
            .collect();
        match &of_key[..] {
            [] => {}
            [line] => text += &format!("{key} = {line}\n"),
            lines => text += &format!("{key} = [\n    {},\n]\n", lines.join(",\n    ")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_read_back() {
        for profile in Profile::ALL {
            let shape = Shape::built_in(profile);
            let again = parse("p.toml", &text_of(&shape)).expect("it is one");
            assert_eq!(again, shape, "{profile:?}");
        }
    }

    #[test]
    fn slips_are_told_with_their_place() {
        let good = "sharing = \"9 500 500\"\nlengths = [\"any exact 32: 32=1\"]\n\
                    service = [\n\"6 any exact 1\",\n]\ndestination_ports = \"80=1\"\n";
        parse("p.toml", good).expect("it is one");
        let cases = [
            ("family = 6\n", "p.toml:1:"),
            ("tea = \"1\"\n", "p.toml:1:1: there is no key tea"),
            ("family = \"ipx\"\n", "p.toml:1:"),
            ("=", "p.toml:1:1"),
            (
                "source_ports = [\n  \"1=1\",\n  \"x=1\",\n]\n",
                "p.toml:3:4: \"x\" is not a number",
            ),
        ];
        for (line, expected) in cases {
            let told = parse("p.toml", &format!("{line}{good}")).expect_err("it is refused");
            let told = told.to_string();
            assert!(told.starts_with(expected), "{line}: {told}");
        }
        let told = parse("p.toml", "family = \"ipv4\"\n").expect_err("nothing to draw");
        assert!(told.to_string().contains("add `service`"), "{told}");
    }
}
