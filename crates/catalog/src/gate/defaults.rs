//! What is allowed without a policy.

use pentad_model::grant::GrantVerb;

use super::act::{Act, Reach};

/// Tells whether an act needs no question: reading what is one's own, one's memory, steering one's own runs, trusted
/// read-only tools.
pub(super) fn allows(act: &Act) -> bool {
    if act.right.is_some() {
        return false;
    }
    let target = act.components();
    let mut parts = target.iter().map(String::as_str);
    let (first, second) = (parts.next(), parts.next());
    match act.verb {
        GrantVerb::Read => match first {
            Some("~" | "activity:" | "approval:" | "attachment:" | "agent:") => true,
            Some("file:" | "thread:" | "run:" | "https:" | "http:") => act.reach == Reach::Own,
            _ => false,
        },
        GrantVerb::Write => match first {
            Some("~") => second == Some("memory"),
            // Whoever started a run may end it and answer it.
            Some("run:") => act.reach == Reach::Own,
            _ => false,
        },
        GrantVerb::Call => act.read_only_trusted && !act.destructive,
        GrantVerb::Delegate => false,
    }
}
