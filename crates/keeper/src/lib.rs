//! One home: layout, configuration, secrets, lock.
