//! What one caller may know of: the filter that stands before ranking, counting and suggesting.

use pentad_model::grant::{Grant, GrantSet, GrantVerb, components};
use pentad_model::tool::ToolRef;

use crate::catalog::Exposure;
use crate::gate::forbids;

/// What a caller may see.
///
/// A tool outside is treated as if it did not exist: it is in no hit, count, suggestion or error.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Visibility {
    /// What the caller may call; a tool shows when `call:` on it is covered.
    pub grants: GrantSet,
    /// The catalogues that are open to the caller. `None` means none of them: connected sources only. An empty list
    /// means the same and says so on purpose; neither ever touches connected sources.
    pub sources: Option<Vec<String>>,
    /// What the policy forbids this caller ([`crate::Policy::denied_for`]); empty for a person, who is told instead.
    pub denied: GrantSet,
}

impl Visibility {
    /// Returns the view of a caller that may call everything of the connected sources.
    #[must_use]
    pub fn everything() -> Self {
        Self::of(GrantSet::everything())
    }

    /// Returns the view that `grants` give, on connected sources.
    #[must_use]
    pub fn of(grants: GrantSet) -> Self {
        Self {
            grants,
            sources: None,
            denied: GrantSet::default(),
        }
    }

    /// Tells whether a tool shows, given that its source does.
    #[must_use]
    pub fn sees(&self, tool: &ToolRef) -> bool {
        self.sees_components(&components(&tool.to_string()))
    }

    pub(crate) fn sees_components(&self, target: &[String]) -> bool {
        self.grants.covers(GrantVerb::Call, target) && !self.is_denied(target)
    }

    fn is_denied(&self, target: &[String]) -> bool {
        self.denied
            .iter()
            .any(|rule| forbids(rule, GrantVerb::Call, target))
    }

    /// Tells whether every tool of every shown source shows, so that no single one has to be asked about.
    pub(crate) fn is_unrestricted(&self) -> bool {
        self.grants.covers(GrantVerb::Call, &[])
            && !self.denied.iter().any(|grant| {
                matches!(
                    grant,
                    Grant::Act {
                        verb: GrantVerb::Call,
                        ..
                    }
                )
            })
    }

    /// Tells whether anything of a source could show.
    pub(crate) fn sees_source(&self, source: &str, exposure: Exposure) -> bool {
        let open = match exposure {
            Exposure::Announced => true,
            Exposure::Searchable => self
                .sources
                .as_ref()
                .is_some_and(|open| open.iter().any(|name| name == source)),
        };
        let may = self.grants.iter().any(|grant| match grant {
            Grant::Act {
                verb: GrantVerb::Call,
                target,
            } => target.first().is_none_or(|first| first == source),
            _ => false,
        });
        open && may && !self.is_denied(&[source.to_owned()])
    }
}
