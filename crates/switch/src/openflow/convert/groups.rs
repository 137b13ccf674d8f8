//! Groups, in both directions.

use thalweg_openflow::message::group::{self as of_group, ANY_GROUP, GroupType};
use thalweg_openflow::message::port::PortNumber;
use thalweg_openflow::{self as of, Condition, ErrorCode, Refusal, Value, refuse};
use thalweg_pipeline::{
    Bucket, Group, GroupId, GroupKind, HashedField, Selection, SelectionMethod,
};

use super::actions::{max_length, of_list as actions_of};
use super::fields::{name_of, pieces};
use super::matching::{from_piece, ones, port_id, port_number, to_piece};
use super::reading::of_list;
use super::shape::Shape;

/// The pipeline's group.
///
/// # Errors
/// If the pipeline lacks an action, a field or a method.
pub(in crate::openflow) fn group(
    id: u32,
    kind: GroupType,
    buckets: &[of_group::Bucket],
    selection: Option<&of_group::Selection>,
) -> Result<Group, Refusal> {
    let kind = match kind {
        GroupType::All => GroupKind::All,
        GroupType::Indirect => GroupKind::Indirect,
        GroupType::FastFailover => GroupKind::FastFailover,
        GroupType::Select => GroupKind::Select(match selection {
            Some(selection) => self::selection(selection)?,
            None => Selection::default(),
        }),
    };
    let buckets = buckets.iter().map(|asked| bucket(asked, &kind));
    Ok(Group {
        id: GroupId(id.into()),
        buckets: buckets.collect::<Result<_, _>>()?,
        kind,
    })
}

/// The pipeline's bucket.
///
/// # Errors
/// If the pipeline lacks an action or a field.
pub(in crate::openflow) fn bucket(
    asked: &of_group::Bucket,
    kind: &GroupKind,
) -> Result<Bucket, Refusal> {
    let is_select = matches!(kind, GroupKind::Select(_));
    Ok(Bucket {
        id: asked.id,
        weight: asked.weight.unwrap_or(u16::from(is_select)),
        watch_port: (asked.watch_port != PortNumber::ANY).then(|| port_id(asked.watch_port)),
        watch_group: (asked.watch_group != ANY_GROUP).then_some(GroupId(asked.watch_group.into())),
        actions: actions_of(&asked.actions)?.into(),
        max_length: max_length(&asked.actions),
    })
}

fn selection(asked: &of_group::Selection) -> Result<Selection, Refusal> {
    let method = match asked.method.as_str() {
        "" => SelectionMethod::Symmetric,
        "dp_hash" => SelectionMethod::Datapath,
        "hash" => {
            let fields = asked.fields.conditions.iter().map(hashed);
            let fields = fields.collect::<Result<Vec<_>, _>>()?;
            SelectionMethod::Fields(fields.into_iter().flatten().collect())
        }
        other => {
            let what = format!("no select group chooses by `{other}`");
            return Err(refuse(ErrorCode::OFPBPC_BAD_VALUE, what));
        }
    };
    Ok(Selection {
        method,
        parameter: asked.parameter,
    })
}

/// The pipeline's hashed fields. The value of the condition says which bits count.
fn hashed(asked: &Condition) -> Result<Vec<HashedField>, Refusal> {
    let Some(pieces) = pieces(asked.field) else {
        let what = format!("this switch has no field {}", asked.field);
        return Err(refuse(ErrorCode::OFPBMC_BAD_FIELD, what));
    };
    let bits = asked.value.number();
    let of_piece = pieces.iter().map(|piece| HashedField {
        field: piece.field,
        mask: to_piece(bits, piece),
        only_with: super::shape::header_of(asked.field.needs()),
    });
    Ok(of_piece.filter(|hashed| hashed.mask != 0).collect())
}

/// OpenFlow's description of a group.
pub(in crate::openflow) fn description(group: &Group) -> of_group::GroupDesc {
    let kind = match &group.kind {
        GroupKind::All => GroupType::All,
        GroupKind::Select(_) => GroupType::Select,
        GroupKind::Indirect => GroupType::Indirect,
        GroupKind::FastFailover => GroupType::FastFailover,
    };
    let selection = match &group.kind {
        GroupKind::Select(selection) => told_selection(selection),
        _ => None,
    };
    let is_select = kind == GroupType::Select;
    let buckets = group.buckets.iter().map(|bucket| of_group::Bucket {
        id: bucket.id,
        weight: is_select.then_some(bucket.weight),
        watch_port: bucket.watch_port.map_or(PortNumber::ANY, port_number),
        watch_group: bucket.watch_group.map_or(ANY_GROUP, |group| group.number()),
        actions: of_list(&bucket.actions, bucket.max_length),
    });
    of_group::GroupDesc {
        group: group.id.number(),
        kind,
        buckets: buckets.collect(),
        selection,
    }
}

fn told_selection(selection: &Selection) -> Option<of_group::Selection> {
    let (method, fields) = match &selection.method {
        SelectionMethod::Symmetric => return None,
        SelectionMethod::Datapath => ("dp_hash", of::Match::default()),
        SelectionMethod::Fields(fields) => ("hash", told_fields(fields)),
    };
    Some(of_group::Selection {
        method: method.to_owned(),
        parameter: selection.parameter,
        fields,
    })
}

fn told_fields(fields: &[HashedField]) -> of::Match {
    let told = fields.iter().filter_map(|hashed| {
        let shape = Shape::with_header(hashed.only_with);
        let (field, piece) = name_of(hashed.field, &shape)?;
        let bits = from_piece(hashed.mask, &piece) & ones(field.width_bits().min(128));
        Some(Condition {
            field,
            value: Value::from_number(bits, field.bytes()),
            mask: None,
        })
    });
    of::Match {
        conditions: told.collect(),
    }
}
