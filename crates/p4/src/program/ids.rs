//! Ids of a program's parts: small dense numbers, one type for each kind.

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(pub u32);

        impl $name {
            /// The id as an array index.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

ids! {
    /// A header instance: a header, or a metadata structure.
    HeaderId,
    /// A field of a header instance.
    FieldId,
    /// A header stack.
    StackId,
    /// A header union.
    UnionId,
    /// A stack of header unions.
    UnionStackId,
    /// An action. Names are not unique: p4c clones an action for each table.
    ActionId,
    /// A table with a key.
    TableId,
    /// An action profile, with or without a selector.
    ProfileId,
    /// An array of counters.
    CounterId,
    /// An array of meters.
    MeterId,
    /// An array of registers.
    RegisterId,
    /// A calculation: a hash or checksum over some fields.
    CalculationId,
    /// A parser state.
    StateId,
    /// A value set of the parser.
    ValueSetId,
    /// A digest's list of fields.
    LearnListId,
    /// A list of fields that a copy of a packet keeps.
    FieldListId,
    /// A node of a control-flow graph.
    NodeId,
}
