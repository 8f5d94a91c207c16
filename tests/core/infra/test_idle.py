"""Processes that poll the database rest until anybody has committed something."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from sqlalchemy import text

from core.infra.commit_mark import CommitMark
from core.infra.database import Database, open_database
from core.infra.idle import IdleWatch
from core.infra.settings import Settings


def write(database: Database) -> None:
    with database.write() as session:
        session.execute(text("INSERT INTO some VALUES (1)"))


def test_a_rest_lasts_until_the_next_commit(tmp_path: Path) -> None:
    with closing(open_database(Settings(data=tmp_path))) as database:
        with database.write() as session:
            session.execute(text("CREATE TABLE some (id INT)"))
        with closing(database.watch_commits()) as idle:
            assert not idle.is_resting()  # before it was allowed
            idle.rest()
            assert [idle.is_resting() for _ in range(3)] == [True] * 3
            write(database)
            assert not idle.is_resting()
            assert not idle.is_resting()  # until it is allowed again
            write(database)  # between the look and the permission
            idle.rest()
            assert not idle.is_resting()


def test_there_is_no_rest_without_a_file_that_can_be_read(tmp_path: Path) -> None:
    with closing(IdleWatch(tmp_path / "folder" / "missing.db")) as idle:
        idle.is_resting()
        idle.rest()
        assert not idle.is_resting()


def test_a_rest_beside_postgresql_ends_with_a_commit_of_the_instance_or_soon(tmp_path: Path) -> None:
    mark = CommitMark(tmp_path / "commits")
    idle = IdleWatch(mark)
    for end in (mark.touch, lambda: idle.rest(0)):
        idle.is_resting()
        idle.rest()
        assert [idle.is_resting() for _ in range(3)] == [True] * 3
        end()
        assert not idle.is_resting()


def test_no_rest_survives_the_end_of_its_connection(tmp_path: Path) -> None:
    with closing(open_database(Settings(data=tmp_path))) as database:
        with database.write() as session:
            session.execute(text("CREATE TABLE some (id INT)"))
        idle = database.watch_commits()
        idle.is_resting()
        idle.rest()
        idle.close()
        write(database)
        assert not idle.is_resting()
        idle.close()
