use super::*;

const BUSY: Duration = Duration::from_secs(5);
const SECOND: &str = "ALTER TABLE thread ADD COLUMN colour TEXT; UPDATE thread SET colour = agent;";

/// Fills a folder with the database that a release of this format wrote (`tests/fixtures/v<N>.sql`).
fn written_by(version: usize, folder: &Path) -> PathBuf {
    let fixture = format!("{}/tests/fixtures/v{version}.sql", env!("CARGO_MANIFEST_DIR"));
    let path = folder.join("pentad.db");
    let connection = Connection::open(&path).unwrap();
    connection
        .execute_batch(&std::fs::read_to_string(fixture).unwrap())
        .unwrap();
    connection
        .pragma_update(None, "application_id", APPLICATION_ID)
        .unwrap();
    connection
        .pragma_update(None, "user_version", i32::try_from(version).unwrap())
        .unwrap();
    path
}

fn number(connection: &Connection, sql: &str) -> i64 {
    connection.query_one(sql, [], |row| row.get(0)).unwrap()
}

fn schema(connection: &Connection) -> Vec<(String, String)> {
    let mut statement = connection
        .prepare("SELECT name, coalesce(sql, '') FROM sqlite_schema ORDER BY name")
        .unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
    rows.unwrap().map(Result::unwrap).collect()
}

#[test]
fn d14_databases_of_every_release_reach_the_schema_of_this_one() {
    let fresh = tempfile::tempdir().unwrap();
    let fresh = prepare(&fresh.path().join("pentad.db"), MIGRATIONS, BUSY).unwrap();
    for version in 1..=MIGRATIONS.len() {
        let dir = tempfile::tempdir().unwrap();
        let migrated = prepare(&written_by(version, dir.path()), MIGRATIONS, BUSY).unwrap();
        assert_eq!(schema(&migrated), schema(&fresh), "from version {version}");
        assert_eq!(
            number(&migrated, "SELECT count(*) FROM pragma_foreign_key_check"),
            0
        );
        let seq = "SELECT sum(events) FROM thread";
        assert_eq!(
            number(&migrated, seq),
            number(&migrated, "SELECT count(*) FROM event")
        );
    }
}

#[test]
fn an_older_database_is_copied_and_migrated_in_one_step() {
    let dir = tempfile::tempdir().unwrap();
    let path = written_by(1, dir.path());
    let first = &MIGRATIONS[..1];
    let two = [MIGRATIONS[0], SECOND];
    let connection = prepare(&path, &two, BUSY).unwrap();
    assert_eq!(number(&connection, "PRAGMA user_version"), 2);
    assert_eq!(
        number(&connection, "SELECT count(*) FROM thread WHERE colour = agent"),
        2
    );
    assert_eq!(header(&path).unwrap(), Some(Format::Version(2)));
    drop(connection);

    let copy = backup_path(&path, 1);
    assert_eq!(header(&copy).unwrap(), Some(Format::Version(1)));
    let copy = Connection::open(copy).unwrap();
    assert_eq!(number(&copy, "SELECT count(*) FROM event"), 3);
    let error = prepare(&path, first, BUSY).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("has format 2, and this build reads up to 1"),
        "{error}"
    );
    prepare(&path, &two, BUSY).unwrap();
}

#[test]
fn a_migration_that_fails_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = written_by(1, dir.path());
    let orphan = "PRAGMA defer_foreign_keys = ON; DELETE FROM thread WHERE row = 1;";
    for third in ["CREATE TABLE thread (x)", orphan] {
        prepare(&path, &[MIGRATIONS[0], SECOND, third], BUSY).unwrap_err();
        assert_eq!(header(&path).unwrap(), Some(Format::Version(1)), "{third}");
        let connection = prepare(&path, &MIGRATIONS[..1], BUSY).unwrap();
        assert_eq!(number(&connection, "SELECT count(*) FROM thread"), 2);
        assert_eq!(
            number(
                &connection,
                "SELECT count(*) FROM pragma_table_info('thread') WHERE name = 'colour'"
            ),
            0
        );
    }
}

#[test]
fn the_lock_is_waited_for_and_the_wait_has_an_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pentad.db");
    let held = lock(&path, BUSY).unwrap();
    let error = prepare(&path, MIGRATIONS, Duration::from_millis(20)).unwrap_err();
    assert!(
        error.to_string().contains("is held by another process"),
        "{error}"
    );
    drop(held);
    prepare(&path, MIGRATIONS, BUSY).unwrap();
}
