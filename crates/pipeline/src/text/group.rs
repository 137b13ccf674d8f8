//! One group, as `ovs-ofctl add-group` takes it and `dump-groups` prints it.
//!
//! ```text
//! group_id=1,type=select,selection_method=hash,fields(ip_dst),
//!     bucket=bucket_id:0,weight:100,watch_port:1,actions=output:2,bucket=output:3
//! ```
//!
//! A bucket extends to the next `bucket=`. Its own properties come first; the rest are
//! actions, with or without `actions=` before them. Buckets without a number get the next free
//! one. Hash fields keep their masks. `dp_hash` leaves the hash to the datapath; here it
//! chooses like the default.

use super::actions::{ActionReader, group_id};
use super::error::Parsed;
use super::flow::read_hash_fields;
use super::intern::Interner;
use super::line::{Line, Mark, Pair};
use super::value::{FIRST_RESERVED_PORT, PortWord};
use crate::action::{Actions, GroupId};
use crate::change::Operation;
use crate::check::form::{MAX_BUCKET, MAX_BUCKETS, MAX_GROUP, Owner};
use crate::flow::{Bucket, Group, GroupKind, Selection, SelectionMethod};

/// Whether a line is about a group.
pub(super) fn is_group(text: &str) -> bool {
    let words = [
        "group ",
        "group_id=",
        "add_or_mod ",
        "insert_bucket ",
        "remove_bucket ",
    ];
    let after_command = text
        .split_once([' ', '\t', ','])
        .map(|(_, rest)| rest.trim_start());
    words.iter().any(|word| text.starts_with(word))
        || after_command.is_some_and(|rest| rest.starts_with("group_id="))
}

/// Reads an operation on a group.
pub(super) fn read_operation<'a>(
    line: &'a Line<'a>,
    text: &'a str,
    interner: &'a mut Interner,
) -> Parsed<Operation> {
    let text = text.strip_prefix("group ").unwrap_or(text).trim_start();
    let end = text.find([' ', '\t', ',']).unwrap_or(text.len());
    match &text[..end] {
        "add" | "modify" | "add_or_mod" => {
            read_group(line, &text[end..], interner).map(Operation::SetGroup)
        }
        "delete" => {
            let mut pairs = line.pairs(&text[end..]);
            match pairs.next()? {
                Some(pair) if pair.key == "group_id" && pair.value != "all" => {
                    group_id(line, pair.value).map(Operation::DeleteGroup)
                }
                _ => Err(line.unsupported(text, "deletion of all groups at once")),
            }
        }
        word @ ("insert_bucket" | "remove_bucket") => Err(line.unsupported(text, word)),
        _ => read_group(line, text, interner).map(Operation::SetGroup),
    }
}

/// Reads a group.
pub(super) fn read_group<'a>(
    line: &'a Line<'a>,
    text: &'a str,
    interner: &'a mut Interner,
) -> Parsed<Group> {
    let (head, buckets) = split_buckets(text);
    let mut id = None;
    let mut kind = None;
    let mut method = None;
    let mut parameter = None;
    let mut fields = None;
    let mut pairs = line.pairs(head);
    while let Some(pair) = pairs.next()? {
        match pair.key {
            "group_id" => id = Some(group_id(line, pair.value)?),
            "type" => kind = Some(read_kind(line, pair.value)?),
            "selection_method" => method = Some(pair).filter(|pair| !pair.value.is_empty()),
            "selection_method_param" => parameter = Some(pair),
            "fields" => fields = Some(pair),
            _ => return Err(line.unknown(pair.key, "property of a group", PROPERTIES)),
        }
    }
    let Some(id) = id else {
        return Err(line.syntax(text, "the group has no number; write group_id=N"));
    };
    let Some(mut kind) = kind else {
        return Err(line.syntax(
            text,
            "the group has no type; write type=all (or select, ...)",
        ));
    };
    if let Some(pair) = fields.or(parameter).or(method) {
        let GroupKind::Select(selection) = &mut kind else {
            return Err(line.syntax(
                pair.key,
                "only select groups hash fields; write type=select",
            ));
        };
        *selection = read_selection(line, method, parameter, fields)?;
    }
    let buckets = read_buckets(line, buckets, &kind, interner)?;
    Ok(Group { id, kind, buckets })
}

/// Reads how a select group chooses; at least one of the words is present.
fn read_selection(
    line: &Line<'_>,
    method: Option<Pair<'_>>,
    parameter: Option<Pair<'_>>,
    fields: Option<Pair<'_>>,
) -> Parsed<Selection> {
    let parameter = match parameter {
        Some(pair) if method.is_none() => {
            return Err(line.syntax(pair.key, "it needs a selection_method (hash or dp_hash)"));
        }
        Some(pair) => line.integer(pair.value)?,
        None => 0,
    };
    let method = match (method.map_or("", |pair| pair.value), fields) {
        ("hash", Some(pair)) => SelectionMethod::Fields(read_hash_fields(line, pair.value)?),
        (_, Some(pair)) => {
            return Err(line.syntax(pair.key, "fields need selection_method=hash"));
        }
        ("", None) => SelectionMethod::Symmetric,
        ("hash", None) => SelectionMethod::Fields(Vec::new()),
        ("dp_hash", None) => SelectionMethod::Datapath,
        (other, None) => return Err(line.value(other, "a selection method (hash or dp_hash)")),
    };
    Ok(Selection { method, parameter })
}

const PROPERTIES: &str = "there are group_id, type, selection_method, \
                          selection_method_param, fields and bucket";

fn read_kind(line: &Line<'_>, value: &str) -> Parsed<GroupKind> {
    match value {
        "all" => Ok(GroupKind::All),
        "select" => Ok(GroupKind::Select(Selection::default())),
        "indirect" => Ok(GroupKind::Indirect),
        "ff" | "fast_failover" => Ok(GroupKind::FastFailover),
        _ => Err(line.value(value, "a type of group (all, select, indirect, ff)")),
    }
}

/// Splits the text before the first bucket from the buckets.
fn split_buckets(text: &str) -> (&str, &str) {
    match text.find("bucket=") {
        Some(start) => text.split_at(start),
        None => text.split_at(text.len()),
    }
}

fn read_buckets<'a>(
    line: &'a Line<'a>,
    text: &'a str,
    kind: &GroupKind,
    interner: &'a mut Interner,
) -> Parsed<Vec<Bucket>> {
    let mut drafts = Vec::new();
    for part in text.split("bucket=").skip(1) {
        if drafts.len() == MAX_BUCKETS {
            return Err(line.limit(part, "a group has more buckets", MAX_BUCKETS));
        }
        drafts.push((part, read_bucket(line, part, kind, interner)?));
    }
    if *kind == GroupKind::Indirect && drafts.len() > 1 {
        return Err(line.syntax(
            drafts[1].0,
            "an indirect group has one bucket; remove this one",
        ));
    }
    let mut taken: std::collections::BTreeSet<u32> = Default::default();
    for (part, (id, _)) in &drafts {
        if id.is_some_and(|id| !taken.insert(id)) {
            return Err(line.syntax(part, "two buckets have this bucket_id; change one"));
        }
    }
    let mut next = 0;
    let buckets = drafts.into_iter().map(|(_, (id, mut bucket))| {
        bucket.id = id.unwrap_or_else(|| {
            while !taken.insert(next) {
                next += 1;
            }
            next
        });
        bucket
    });
    Ok(buckets.collect())
}

/// Reads one bucket, and its number if it has one.
fn read_bucket<'a>(
    line: &'a Line<'a>,
    text: &'a str,
    kind: &GroupKind,
    interner: &mut Interner,
) -> Parsed<(Option<u32>, Bucket)> {
    let is_select = matches!(kind, GroupKind::Select(_));
    let mut id = None;
    let mut bucket = Bucket {
        id: 0,
        weight: u16::from(is_select),
        watch_port: None,
        watch_group: None,
        actions: Actions::from([]),
        max_length: 0,
    };
    let mut pairs = line.pairs(text);
    let mut actions = None;
    let mut rest = pairs.rest();
    while let Some((key, mark)) = pairs.key() {
        if matches!(key, "actions" | "action") && mark != Mark::None {
            actions = Some(pairs.rest());
            break;
        }
        let is_property = matches!(key, "bucket_id" | "weight" | "watch_port" | "watch_group");
        if !is_property {
            actions = Some(rest);
            break;
        }
        let value = pairs.value(mark)?;
        let pair = Pair { key, value, mark };
        read_property(line, pair, &mut id, &mut bucket)?;
        rest = pairs.rest();
    }
    if bucket.weight != 0 && !is_select {
        return Err(line.syntax(text, "only buckets of select groups have a weight"));
    }
    if *kind == GroupKind::FastFailover && !bucket.watches() {
        return Err(line.syntax(
            text,
            "a bucket for failover needs watch_port or watch_group",
        ));
    }
    let Some(actions) = actions else {
        return Err(line.syntax(
            text,
            "the bucket has no actions; write actions=... (or drop)",
        ));
    };
    let mut reader = ActionReader {
        line,
        interner,
        shape: None,
    };
    bucket.actions = reader.list(actions, Owner::Nested, 1)?;
    Ok((id, bucket))
}

fn read_property(
    line: &Line<'_>,
    pair: Pair<'_>,
    id: &mut Option<u32>,
    bucket: &mut Bucket,
) -> Parsed<()> {
    match pair.key {
        "bucket_id" => match line.integer::<u32>(pair.value)? {
            number if number <= MAX_BUCKET => *id = Some(number),
            _ => return Err(line.value(pair.value, "a bucket's number (0 to 4294967040)")),
        },
        "weight" => bucket.weight = line.integer(pair.value)?,
        "watch_port" => {
            bucket.watch_port = match line.port_word(pair.value)? {
                Some(PortWord::Number(port)) if port.0 < FIRST_RESERVED_PORT => Some(port),
                Some(PortWord::None) => None,
                Some(_) => return Err(line.value(pair.value, "a port that can be watched")),
                None => return Err(line.unknown_port(pair.value, "port")),
            }
        }
        _ => {
            bucket.watch_group = match line.integer::<u32>(pair.value)? {
                u32::MAX => None,
                group if group <= MAX_GROUP => Some(GroupId(group.into())),
                _ => return Err(line.value(pair.value, "a group that can be watched")),
            }
        }
    }
    Ok(())
}
