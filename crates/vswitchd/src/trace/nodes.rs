//! The lines of a trace, as a tree, and their indentation (`oftrace_node_print_details` of
//! Open vSwitch).
//!
//! Each line belongs to the table, bucket or bridge that it was said in. A table that is the
//! last in its parent is not indented: so a chain of `goto_table` stays at the left, and what
//! a `resubmit` leads to stands apart from the actions that follow it.

/// Most bytes of the tree's text; more are left out, with a line that says so.
const TEXT_BYTES_MAX: usize = 1 << 24;

/// What a line is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NodeKind {
    /// An action.
    Action,
    /// What came of it.
    Detail,
    /// What should not be.
    Warning,
    /// What ends the walk.
    Error,
    /// A bucket of a group, and what it does.
    Bucket,
    /// A bridge, and what it does.
    Bridge,
    /// A table or the action set, and what it does.
    Table,
}

impl NodeKind {
    /// Whether the line is indented even as the last of its parent.
    fn is_terminal(self) -> bool {
        !matches!(self, NodeKind::Bridge | NodeKind::Table)
    }
}

#[derive(Debug)]
struct Node {
    kind: NodeKind,
    text: String,
    children: Vec<usize>,
}

/// A place in the tree where lines are added.
#[derive(Clone, Copy, Debug)]
struct Open {
    /// How deep the walk is nested there.
    nesting: u32,
    node: usize,
}

/// The lines of a walk.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    nodes: Vec<Node>,
    roots: Vec<usize>,
    /// From the outermost to the innermost place.
    open: Vec<Open>,
}

impl Nodes {
    /// Adds a line that is said at this nesting.
    pub(super) fn say(&mut self, nesting: u32, kind: NodeKind, text: String) {
        self.close_above(nesting);
        self.add(kind, text);
    }

    /// Adds a table, in which later lines of this nesting stand.
    pub(super) fn open_table(&mut self, nesting: u32, text: String) {
        self.close_above(nesting);
        self.open(nesting, NodeKind::Table, text);
    }

    /// Adds the action set, which stands in the first table of this nesting.
    pub(super) fn open_action_set(&mut self, nesting: u32, text: String) {
        self.close_above(nesting);
        let is_table =
            |open: &Open| open.nesting == nesting && self.nodes[open.node].kind == NodeKind::Table;
        if let Some(first) = self.open.iter().position(is_table) {
            self.open.truncate(first + 1);
        }
        self.open(nesting, NodeKind::Table, text);
    }

    /// Adds a bridge or a bucket, whose lines have this nesting.
    pub(super) fn open_copy(&mut self, nesting: u32, kind: NodeKind, text: String) {
        while self.open.last().is_some_and(|open| open.nesting >= nesting) {
            self.open.pop();
        }
        self.open(nesting, kind, text);
    }

    /// Whether lines of this nesting stand in a copy of the packet.
    pub(super) fn is_in_copy(&self, nesting: u32) -> bool {
        let places = self.open.iter().skip(1);
        let mut places = places.filter(|open| open.nesting <= nesting);
        places.any(|open| {
            matches!(
                self.nodes[open.node].kind,
                NodeKind::Bridge | NodeKind::Bucket
            )
        })
    }

    fn close_above(&mut self, nesting: u32) {
        while self.open.last().is_some_and(|open| open.nesting > nesting) {
            self.open.pop();
        }
    }

    fn open(&mut self, nesting: u32, kind: NodeKind, text: String) {
        let node = self.add(kind, text);
        self.open.push(Open { nesting, node });
    }

    fn add(&mut self, kind: NodeKind, text: String) -> usize {
        let number = self.nodes.len();
        let children = match self.open.last() {
            Some(open) => &mut self.nodes[open.node].children,
            None => &mut self.roots,
        };
        children.push(number);
        let children = Vec::new();
        self.nodes.push(Node {
            kind,
            text,
            children,
        });
        number
    }

    /// The text of all lines.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        // Lists of nodes that are not written yet, with their level; the innermost last.
        let mut rest: Vec<(&[usize], usize)> = vec![(&self.roots, 0)];
        while let Some((nodes, level)) = rest.pop() {
            let Some((first, others)) = nodes.split_first() else {
                continue;
            };
            if text.len() > TEXT_BYTES_MAX {
                text.push_str(" >>>> the trace is longer and cut off here <<<<\n");
                break;
            }
            rest.push((others, level));
            let node = &self.nodes[*first];
            let more = usize::from(!others.is_empty() || node.kind.is_terminal());
            node.write(&mut text, level + more);
            rest.push((&node.children, level + 2 * more));
        }
        text
    }
}

impl Node {
    fn write(&self, out: &mut String, level: usize) {
        let indentation = " ".repeat(4 * level);
        let text = &self.text;
        match self.kind {
            NodeKind::Detail => *out += &format!("{indentation} -> {text}\n"),
            NodeKind::Warning => *out += &format!("{indentation} >> {text}\n"),
            NodeKind::Error => *out += &format!("{indentation} >>>> {text} <<<<\n"),
            NodeKind::Bridge => {
                let line = "-".repeat(text.len());
                *out += &format!("\n{indentation}{text}\n{indentation}{line}\n");
            }
            NodeKind::Table | NodeKind::Bucket | NodeKind::Action => {
                *out += &format!("{indentation}{text}\n");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_off_and_says_so() {
        let mut nodes = Nodes::default();
        let line = "x".repeat(1 << 20);
        for _ in 0..20 {
            nodes.say(0, NodeKind::Action, line.clone());
        }
        let text = nodes.text();
        assert!(text.len() < TEXT_BYTES_MAX + (1 << 21));
        assert!(text.ends_with("\n >>>> the trace is longer and cut off here <<<<\n"));
        assert!(!Nodes::default().text().contains("cut off"));
    }

    /// The last table of its parent is not indented; one that actions follow is.
    #[test]
    fn tables_stand_apart_where_something_follows() {
        let mut nodes = Nodes::default();
        nodes.open_table(0, " 0. first".to_owned());
        nodes.say(0, NodeKind::Action, "resubmit(,1)".to_owned());
        nodes.open_table(1, " 1. second".to_owned());
        nodes.say(1, NodeKind::Action, "goto_table:2".to_owned());
        nodes.open_table(1, " 2. third".to_owned());
        nodes.say(1, NodeKind::Action, "group:1".to_owned());
        nodes.say(1, NodeKind::Detail, "using bucket 0".to_owned());
        nodes.open_copy(2, NodeKind::Bucket, "bucket 0".to_owned());
        assert!(nodes.is_in_copy(2) && !nodes.is_in_copy(1));
        nodes.say(2, NodeKind::Action, "output:2".to_owned());
        nodes.say(0, NodeKind::Action, "goto_table:3".to_owned());
        nodes.open_table(0, " 3. fourth".to_owned());
        nodes.say(0, NodeKind::Action, "drop".to_owned());
        let expected = " 0. first
    resubmit(,1)
     1. second
            goto_table:2
         2. third
            group:1
             -> using bucket 0
            bucket 0
                    output:2
    goto_table:3
 3. fourth
    drop
";
        assert_eq!(nodes.text(), expected);
    }
}
