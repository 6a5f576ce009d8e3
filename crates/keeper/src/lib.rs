//! One home: its layout, configuration, secrets and lock; and who is calling from which folder.
//!
//! Everything that a person authors lives here as plain files. They are read strictly, edited with their comments
//! kept, and replaced atomically under a lock; a file that cannot be read is kept and reported, never replaced.

pub mod attach;
pub mod caller;
pub mod clients;
pub mod config;
pub mod doctor;
pub mod durable;
pub mod edit;
pub mod home;
pub mod lock;
pub mod secrets;
pub mod template;
pub mod workspace;

pub use caller::{Ancestor, Calling, ancestors, caller_of, is_person_at_terminal, shell_thread};
pub use clients::known_client_configs;
pub use config::{Config, ConfigError};
pub use doctor::{Finding, examine};
pub use edit::{add_server, edit_config, remove_server};
pub use home::{Home, HomeError};
pub use lock::KeeperLock;
pub use secrets::{SecretError, SecretName, SecretValue, Secrets};
pub use template::{Lookup, Origin, Template, TemplateError};
pub use workspace::discover_workspace;
