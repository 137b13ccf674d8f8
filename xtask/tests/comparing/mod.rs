//! What two traces must have alike.

/// An answer, with what the two do not have alike: Open vSwitch sends to the ports of a flood in
/// no order, and numbers states as it makes them.
pub(crate) fn comparable(answer: &str) -> String {
    let floods = ["FLOOD", "ALL", "flooding"];
    let has_flood = answer
        .lines()
        .any(|line| floods.iter().any(|word| line.ends_with(word)));
    let lines = answer.lines().map(|line| {
        let Some(actions) = line.strip_prefix("Datapath actions: ") else {
            return without_numbers(line);
        };
        let mut actions: Vec<&str> = actions.split(',').collect();
        if has_flood {
            let runs = actions.chunk_by_mut(|one, next| is_port(one) && is_port(next));
            runs.for_each(<[&str]>::sort_unstable);
        }
        let actions = without_numbers(&actions.join(","));
        format!("Datapath actions: {actions}")
    });
    let lines: Vec<String> = lines.collect();
    lines.join("\n").trim_end().to_owned()
}

fn is_port(action: &str) -> bool {
    action.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Replaces the numbers that Open vSwitch gives to states.
fn without_numbers(actions: &str) -> String {
    let mut rest = actions;
    let mut text = String::new();
    while let Some((before, name)) = ["recirc(", "recirc_id="]
        .into_iter()
        .filter_map(|name| Some((rest.find(name)?, name)))
        .min()
    {
        let end = before + name.len();
        text.push_str(&rest[..end]);
        let number = rest[end..].find([',', ')']);
        rest = number.map_or("", |number| &rest[end + number..]);
        text.push('N');
    }
    text + rest
}
