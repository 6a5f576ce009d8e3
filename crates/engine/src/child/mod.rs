//! Child runs: recipes as programs of the run engine, and verbs that runs invoke.

mod attending;
mod invoker;
mod job;
mod recipe;

pub(crate) use self::attending::{Attending, Company};
pub(crate) use self::invoker::EngineInvoker;
pub(crate) use self::job::RecipeJob;
pub(crate) use self::recipe::RecipeProgram;
