//! Whether a run may go on.

use pentad_model::run::{Run, Usage};
use pentad_model::step::CommandKind;
use pentad_model::{Timestamp, verb::Budget};

/// Returns what of a budget is reached, for a person.
pub(crate) fn reached(
    budget: &Budget,
    usage: &Usage,
    began: Timestamp,
    now: Timestamp,
    kind: CommandKind,
) -> Option<String> {
    // What only waits costs nothing.
    if !matches!(kind, CommandKind::Step | CommandKind::Invoke | CommandKind::Spawn) {
        return None;
    }
    let past = u64::try_from(now.0.saturating_sub(began.0)).unwrap_or(0);
    if let Some(wall) = budget.wall_ms.filter(|wall| past >= *wall) {
        return Some(format!("the time of {} s is used up", seconds(wall)));
    }
    if let Some(tokens) = budget.tokens.filter(|tokens| usage.tokens >= *tokens) {
        return Some(format!("{} of {tokens} tokens are used up", usage.tokens));
    }
    if let Some(cost) = budget.cost_micros.filter(|cost| usage.cost_micros >= *cost) {
        return Some(format!(
            "{} of {} US dollars are used up",
            dollars(usage.cost_micros),
            dollars(cost)
        ));
    }
    let children = budget
        .children
        .filter(|children| kind == CommandKind::Spawn && usage.children >= *children)?;
    Some(format!("{} of {children} children were started", usage.children))
}

fn seconds(millis: u64) -> String {
    format!("{}.{:03}", millis / 1000, millis % 1000)
}

fn dollars(micros: u64) -> String {
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

/// Returns a budget with what a person gave besides: each limit that is given takes the place of the old one.
pub(crate) fn widened(budget: &Budget, more: &Budget) -> Budget {
    Budget {
        wall_ms: more.wall_ms.or(budget.wall_ms),
        tokens: more.tokens.or(budget.tokens),
        cost_micros: more.cost_micros.or(budget.cost_micros),
        children: more.children.or(budget.children),
        depth: more.depth.or(budget.depth),
    }
}

/// Returns how deep the children of a run may go: its own budget counts generations below it.
pub(crate) fn child_depth(run: &Run, asked: Option<u64>) -> Option<u64> {
    let inherited = run.terms.budget.depth.map(|depth| depth.saturating_sub(1));
    match (inherited, asked) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_costs_nothing_and_each_limit_is_named() {
        let budget = Budget {
            wall_ms: Some(1500),
            tokens: Some(10),
            cost_micros: Some(20_000),
            children: Some(2),
            depth: None,
        };
        let check = |usage, now, kind| reached(&budget, &usage, Timestamp(0), Timestamp(now), kind);
        let none = Usage::default();
        assert_eq!(check(none, 1499, CommandKind::Step), None);
        assert_eq!(check(none, 1500, CommandKind::Join), None);
        assert_eq!(
            check(none, 1500, CommandKind::Step).unwrap(),
            "the time of 1.500 s is used up"
        );
        let tokens = Usage { tokens: 11, ..none };
        assert_eq!(
            check(tokens, 0, CommandKind::Invoke).unwrap(),
            "11 of 10 tokens are used up"
        );
        let cost = Usage {
            cost_micros: 20_000,
            ..none
        };
        assert_eq!(
            check(cost, 0, CommandKind::Step).unwrap(),
            "0.020000 of 0.020000 US dollars are used up"
        );
        let children = Usage { children: 2, ..none };
        assert_eq!(check(children, 0, CommandKind::Step), None);
        assert_eq!(
            check(children, 0, CommandKind::Spawn).unwrap(),
            "2 of 2 children were started"
        );
    }
}
