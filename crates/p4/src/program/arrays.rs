//! Counters, meters, registers, and the field lists of copies and digests.

use std::collections::HashMap;

use crate::error::LoadError;
use crate::json::Node;

use super::headers::{FIELD_BITS_MAX, Headers};
use super::ids::{CounterId, FieldId, FieldListId, LearnListId, MeterId, RegisterId};

/// Maximum cells of one array.
pub const CELLS_MAX: u32 = 1 << 22;

/// Maximum bytes of the cells of all arrays together.
pub const CELL_BYTES_MAX: u64 = 1 << 29;

/// An array of counters, or the counters of a table's entries.
#[derive(Clone, Debug)]
pub struct CounterArray {
    /// Its name.
    pub name: String,
    /// Number of cells; 0 for a direct array.
    pub size: u32,
    /// The name of the table whose entries have its cells.
    pub direct_table: Option<String>,
}

/// An array of meters, or the meters of a table's entries.
#[derive(Clone, Debug)]
pub struct MeterArray {
    /// Its name.
    pub name: String,
    /// Number of cells; 0 for a direct array.
    pub size: u32,
    /// Whether it counts bytes instead of packets.
    pub counts_bytes: bool,
    /// Rates of a cell: 2 for a meter with three colors.
    pub rate_count: u32,
    /// The name of the table whose entries have its cells.
    pub direct_table: Option<String>,
    /// For a direct array, the field that gets the color.
    pub result: Option<FieldId>,
}

/// An array of registers.
#[derive(Clone, Debug)]
pub struct RegisterArray {
    /// Its name.
    pub name: String,
    /// Number of cells.
    pub size: u32,
    /// Bits of a cell.
    pub width_bits: u32,
}

/// Fields whose values a digest sends to the controller.
#[derive(Clone, Debug)]
pub struct LearnList {
    /// Its name.
    pub name: String,
    /// Its id in the JSON.
    pub id: u32,
    /// Its fields.
    pub fields: Vec<FieldId>,
}

/// Fields that a clone, or a resubmitted or recirculated packet, keeps.
#[derive(Clone, Debug)]
pub struct FieldList {
    /// Its name.
    pub name: String,
    /// Its id in the JSON.
    pub id: u32,
    /// Its fields.
    pub fields: Vec<FieldId>,
}

/// All arrays and field lists.
#[derive(Clone, Debug, Default)]
pub struct Arrays {
    /// Arrays of counters.
    pub counters: Vec<CounterArray>,
    /// Arrays of meters.
    pub meters: Vec<MeterArray>,
    /// Arrays of registers.
    pub registers: Vec<RegisterArray>,
    /// Digests.
    pub learn_lists: Vec<LearnList>,
    /// Field lists that copies keep.
    pub field_lists: Vec<FieldList>,
    counter_names: HashMap<String, CounterId>,
    meter_names: HashMap<String, MeterId>,
    register_names: HashMap<String, RegisterId>,
    cell_bytes: u64,
}

impl Arrays {
    /// Finds an array of counters by name.
    pub fn find_counter(&self, name: &str) -> Option<CounterId> {
        self.counter_names.get(name).copied()
    }

    /// Finds an array of meters by name.
    pub fn find_meter(&self, name: &str) -> Option<MeterId> {
        self.meter_names.get(name).copied()
    }

    /// Finds an array of registers by name.
    pub fn find_register(&self, name: &str) -> Option<RegisterId> {
        self.register_names.get(name).copied()
    }

    /// The digest with this JSON id.
    pub(super) fn learn_list(&self, node: &Node<'_>, id: u32) -> Result<LearnListId, LoadError> {
        let index = self.learn_lists.iter().position(|list| list.id == id);
        let index = index.ok_or_else(|| node.refuse(format!("there is no learn list {id}")))?;
        Ok(LearnListId(index as u32))
    }

    /// The field list with this JSON id; `None` for 0, which keeps nothing.
    pub(super) fn field_list(
        &self,
        node: &Node<'_>,
        id: u32,
    ) -> Result<Option<FieldListId>, LoadError> {
        match self.field_lists.iter().position(|list| list.id == id) {
            Some(index) => Ok(Some(FieldListId(index as u32))),
            None if id == 0 => Ok(None),
            None => Err(node.refuse(format!("there is no field list {id}"))),
        }
    }
}

/// Reads all arrays and lists.
pub(super) fn read(root: &Node<'_>, headers: &Headers) -> Result<Arrays, LoadError> {
    let mut arrays = Arrays::default();
    for node in root.list("counter_arrays")? {
        arrays.read_counter(&node)?;
    }
    for node in root.list("meter_arrays")? {
        arrays.read_meter(&node, headers)?;
    }
    for node in root.list("register_arrays")? {
        arrays.read_register(&node)?;
    }
    for node in root.list("learn_lists")? {
        arrays.learn_lists.push(LearnList {
            name: node.text_of("name")?.to_owned(),
            id: node.number_of("id")?,
            fields: fields(&node, headers)?,
        });
    }
    for node in root.list("field_lists")? {
        arrays.field_lists.push(FieldList {
            name: node.text_of("name")?.to_owned(),
            id: node.number_of("id")?,
            fields: fields(&node, headers)?,
        });
    }
    Ok(arrays)
}

impl Arrays {
    /// Adds the bytes of an array's cells to the total.
    fn charge(&mut self, node: &Node<'_>, cells: u32, cell_bytes: u64) -> Result<(), LoadError> {
        self.cell_bytes += u64::from(cells) * cell_bytes;
        match self.cell_bytes <= CELL_BYTES_MAX {
            true => Ok(()),
            false => Err(node.refuse(format!(
                "counters, meters and registers need more than {CELL_BYTES_MAX} bytes together"
            ))),
        }
    }

    fn read_counter(&mut self, node: &Node<'_>) -> Result<(), LoadError> {
        let name = node.text_of("name")?.to_owned();
        let direct_table = direct_table(node)?;
        let size = size(node, direct_table.is_some())?;
        self.charge(node, size, size_of::<crate::state::Counter>() as u64)?;
        let id = CounterId(self.counters.len() as u32);
        self.counter_names.insert(name.clone(), id);
        self.counters.push(CounterArray {
            name,
            size,
            direct_table,
        });
        Ok(())
    }

    fn read_meter(&mut self, node: &Node<'_>, headers: &Headers) -> Result<(), LoadError> {
        let name = node.text_of("name")?.to_owned();
        let direct_table = direct_table(node)?;
        let size = size(node, direct_table.is_some())?;
        self.charge(node, size, size_of::<crate::state::Meter>() as u64)?;
        let result = node.find("result_target");
        let result = result.map(|target| headers.field_of(&target)).transpose()?;
        if direct_table.is_some() && result.is_none() {
            return Err(node.refuse("a direct meter needs a result_target"));
        }
        let kind = node.get("type")?;
        let counts_bytes = match kind.text()? {
            "bytes" => true,
            "packets" => false,
            other => return Err(kind.refuse(format!("a meter of {other:?}"))),
        };
        let rate_count = node.number_of("rate_count")?;
        if !(1..=2).contains(&rate_count) {
            return Err(node.refuse("a meter has one rate or two"));
        }
        let id = MeterId(self.meters.len() as u32);
        self.meter_names.insert(name.clone(), id);
        self.meters.push(MeterArray {
            name,
            size,
            counts_bytes,
            rate_count,
            direct_table,
            result,
        });
        Ok(())
    }

    fn read_register(&mut self, node: &Node<'_>) -> Result<(), LoadError> {
        let name = node.text_of("name")?.to_owned();
        let width = node.get("bitwidth")?;
        let width_bits = width.number()?;
        if width_bits == 0 || width_bits > FIELD_BITS_MAX {
            return Err(width.refuse(format!("a register has 1 to {FIELD_BITS_MAX} bits")));
        }
        let size = size(node, false)?;
        self.charge(node, size, u64::from(width_bits.div_ceil(64)) * 8)?;
        let id = RegisterId(self.registers.len() as u32);
        self.register_names.insert(name.clone(), id);
        self.registers.push(RegisterArray {
            name,
            size,
            width_bits,
        });
        Ok(())
    }
}

fn direct_table(node: &Node<'_>) -> Result<Option<String>, LoadError> {
    if !node.flag_of("is_direct")? {
        return Ok(None);
    }
    Ok(Some(node.text_of("binding")?.to_owned()))
}

fn size(node: &Node<'_>, is_direct: bool) -> Result<u32, LoadError> {
    if is_direct {
        return Ok(0);
    }
    let size = node.get("size")?;
    match size.number()? {
        number if number <= CELLS_MAX => Ok(number),
        _ => Err(size.refuse(format!("an array has at most {CELLS_MAX} cells"))),
    }
}

fn fields(node: &Node<'_>, headers: &Headers) -> Result<Vec<FieldId>, LoadError> {
    let mut fields = Vec::new();
    for element in node.list("elements")? {
        if !element.get("type")?.is_text("field") {
            return Err(element.refuse("only fields are supported in a list"));
        }
        fields.push(headers.field_of(&element.get("value")?)?);
    }
    Ok(fields)
}
