//! Prints rules and groups.

use std::fmt::{self, Write as _};

use super::{Context, PortSpelling, actions, matches};
use crate::flow::{
    Bucket, DEFAULT_PRIORITY, Flow, Group, GroupKind, HashedField, Selection, SelectionMethod,
};
use crate::meters::{BandKind, MeterId, RateMeter, RateUnit};
use crate::text::fields;
use crate::text::value::ones;

impl fmt::Display for Flow {
    /// Prints the rule like `dump-flows --no-stats`; with `{:#}`, without white space.
    ///
    /// ```
    /// use thalweg_pipeline::text::parse_flow;
    ///
    /// let flow = parse_flow("cookie=5,table=1,priority=7,tcp,tp_dst=80,actions=output:2")?;
    /// assert_eq!(
    ///     flow.to_string(),
    ///     "cookie=0x5, table=1, priority=7,tcp,tp_dst=80 actions=output:2",
    /// );
    /// assert_eq!(
    ///     format!("{flow:#}"),
    ///     "cookie=0x5,table=1,priority=7,tcp,tp_dst=80,actions=output:2",
    /// );
    /// # Ok::<(), thalweg_pipeline::text::TextError>(())
    /// ```
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (gap, before_actions) = if f.alternate() {
            (",", ",")
        } else {
            (", ", " ")
        };
        if self.cookie != 0 {
            write!(f, "cookie={:#x}{gap}", self.cookie)?;
        }
        write!(f, "table={}", self.table.number())?;
        if self.idle_timeout_s != 0 {
            write!(f, "{gap}idle_timeout={}", self.idle_timeout_s)?;
        }
        if self.hard_timeout_s != 0 {
            write!(f, "{gap}hard_timeout={}", self.hard_timeout_s)?;
        }
        if self.reports_removal {
            write!(f, "{gap}send_flow_rem")?;
        }
        if self.resets_counts {
            write!(f, "{gap}reset_counts")?;
        }
        let mut conditions = String::new();
        if self.priority != DEFAULT_PRIORITY {
            write!(conditions, "priority={},", self.priority)?;
        }
        matches::conditions(&mut conditions, &self.matching, "", PortSpelling::default())?;
        let conditions = conditions.trim_end_matches(',');
        if conditions.is_empty() {
            write!(f, "{gap}actions=")?;
        } else {
            write!(f, "{gap}{conditions}{before_actions}actions=")?;
        }
        actions::list(
            f,
            &self.actions,
            Context::of(&self.matching, PortSpelling::default()),
        )
    }
}

impl fmt::Display for Group {
    /// Prints the group like `dump-groups` of OpenFlow 1.5.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match &self.kind {
            GroupKind::All => "all",
            GroupKind::Select(_) => "select",
            GroupKind::Indirect => "indirect",
            GroupKind::FastFailover => "ff",
        };
        write!(f, "group_id={},type={word}", self.id.number())?;
        if let GroupKind::Select(selection) = &self.kind {
            write_selection(f, selection)?;
        }
        let usual_weight = u16::from(matches!(self.kind, GroupKind::Select(_)));
        for bucket in &self.buckets {
            f.write_str(",bucket=")?;
            write_bucket(f, bucket, usual_weight)?;
        }
        Ok(())
    }
}

impl fmt::Display for RateMeter {
    /// Prints the meter on one line, as `ovs-ofctl add-meter` takes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.id.number() {
            MeterId::CONTROLLER => f.write_str("meter=controller")?,
            MeterId::SLOW_PATH => f.write_str("meter=slowpath")?,
            number => write!(f, "meter={number}")?,
        }
        f.write_str(match self.unit {
            RateUnit::Kilobits => ",kbps",
            RateUnit::Packets => ",pktps",
        })?;
        for (is_set, flag) in [(self.has_burst, ",burst"), (self.has_statistics, ",stats")] {
            f.write_str(if is_set { flag } else { "" })?;
        }
        for (number, band) in self.bands.iter().enumerate() {
            let start = if number == 0 { "bands=" } else { "" };
            let kind = match band.kind {
                BandKind::Drop => "drop",
                BandKind::Remark { .. } => "dscp_remark",
            };
            write!(
                f,
                ",{start}type={kind},rate={},burst_size={}",
                band.rate, band.burst
            )?;
            if let BandKind::Remark { levels } = band.kind {
                write!(f, ",prec_level={levels}")?;
            }
        }
        Ok(())
    }
}

fn write_selection(f: &mut fmt::Formatter<'_>, selection: &Selection) -> fmt::Result {
    let (method, fields) = match &selection.method {
        SelectionMethod::Symmetric if selection.parameter == 0 => return Ok(()),
        // Both methods mean the same, but a parameter is refused without a method.
        SelectionMethod::Symmetric | SelectionMethod::Datapath => ("dp_hash", &[][..]),
        SelectionMethod::Fields(fields) => ("hash", fields.as_slice()),
    };
    write!(f, ",selection_method={method}")?;
    if selection.parameter != 0 {
        write!(f, ",selection_method_param={}", selection.parameter)?;
    }
    if !fields.is_empty() {
        f.write_str(",fields(")?;
        hash_fields(f, fields)?;
        f.write_str(")")?;
    }
    Ok(())
}

fn hash_fields(f: &mut fmt::Formatter<'_>, hashed: &[HashedField]) -> fmt::Result {
    for (index, hashed) in hashed.iter().enumerate() {
        let (field, mask) = (hashed.field, hashed.mask);
        let separator = if index > 0 { "," } else { "" };
        let Some(name) = fields::hashed_name(field, hashed.only_with) else {
            write!(f, "{separator}field{}={mask:#x}", field.0)?;
            continue;
        };
        write!(f, "{separator}{}", name.primary())?;
        if mask != ones(name.width_bits) {
            f.write_str("=")?;
            super::value(
                f,
                name,
                (mask, ones(name.width_bits)),
                PortSpelling::default(),
            )?;
        }
    }
    Ok(())
}

fn write_bucket(f: &mut fmt::Formatter<'_>, bucket: &Bucket, usual_weight: u16) -> fmt::Result {
    write!(f, "bucket_id:{},", bucket.id)?;
    if bucket.weight != usual_weight {
        write!(f, "weight:{},", bucket.weight)?;
    }
    if let Some(port) = bucket.watch_port {
        write!(f, "watch_port:{port},")?;
    }
    if let Some(group) = bucket.watch_group {
        write!(f, "watch_group:{},", group.number())?;
    }
    f.write_str("actions=")?;
    actions::list(f, &bucket.actions, Context::default())
}
