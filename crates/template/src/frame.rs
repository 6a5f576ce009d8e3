//! What a node inherits from the nodes around it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::control::{default_text, inherit_defaults};
use crate::site::Scope;
use crate::tree::Node;
use crate::value::Values;

/// Holds the values that are the same in the whole run.
#[derive(Debug)]
pub(crate) struct Given<'a> {
    pub(crate) values: &'a Values,
    pub(crate) recipe_dir: Option<Value>,
}

/// Holds what a node inherits.
#[derive(Debug, Clone, Default)]
pub(crate) struct Frame {
    declared: Arc<Values>,
    defaults: Arc<Values>,
    /// Holds `defaults` as a leaf sees them: lists joined to one text.
    texts: Arc<Values>,
    pub(crate) deadline: Option<Duration>,
    pub(crate) root: bool,
}

impl Frame {
    pub(crate) fn root() -> Self {
        Self {
            root: true,
            ..Self::default()
        }
    }

    /// Returns the frame inside a node.
    pub(crate) fn enter(&self, node: &Node) -> Self {
        let mut inner = self.clone();
        if let Some(args) = &node.args {
            let with_default = args
                .iter()
                .filter_map(|arg| Some((arg.name.clone(), Value::String(arg.default.clone()?))));
            inner.declared = Arc::new(with_default.collect());
        }
        if !node.defaults.is_empty() {
            inner.set_defaults(inherit_defaults(&node.defaults, &self.defaults));
        }
        inner
    }

    /// Returns the frame with further defaults that lie over the inherited ones.
    pub(crate) fn with_defaults(&self, over: Values) -> Self {
        let mut inner = self.clone();
        let mut defaults = self.defaults.as_ref().clone();
        defaults.extend(over);
        inner.set_defaults(defaults);
        inner
    }

    fn set_defaults(&mut self, defaults: Values) {
        self.texts = Arc::new(
            defaults
                .iter()
                .map(|(name, value)| (name.clone(), default_text(value)))
                .collect(),
        );
        self.defaults = Arc::new(defaults);
    }

    /// Returns the frame of a step inside a group.
    pub(crate) fn inside(&self) -> Self {
        Self {
            root: false,
            ..self.clone()
        }
    }

    pub(crate) fn scope<'a>(&'a self, given: &'a Given<'_>) -> Scope<'a> {
        Scope {
            recipe_dir: given.recipe_dir.as_ref(),
            values: given.values,
            defaults: &self.texts,
            declared: &self.declared,
        }
    }

    /// Returns the values for `repeat`, where a default list is still a list.
    pub(crate) fn list_scope<'a>(&'a self, given: &'a Given<'_>) -> Scope<'a> {
        Scope {
            defaults: &self.defaults,
            ..self.scope(given)
        }
    }
}
