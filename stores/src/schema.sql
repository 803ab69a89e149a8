-- Sessions of Transfix. Times are UTC nanoseconds since 1970; direction 0 is sent, 1 received;
-- kind 0 is a message of the session layer, 1 of an application.
CREATE TABLE IF NOT EXISTS transfix_session (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,
    -- The token of the process that owns the session; a commit with another one is refused.
    writer bigint NOT NULL DEFAULT 1,
    -- Goes up at each reset of the numbers.
    generation bigint NOT NULL DEFAULT 1,
    next_in bigint NOT NULL,
    next_out bigint NOT NULL,
    created_ns bigint NOT NULL
);
CREATE TABLE IF NOT EXISTS transfix_message (
    session bigint NOT NULL REFERENCES transfix_session,
    generation bigint NOT NULL,
    direction smallint NOT NULL,
    seq bigint NOT NULL,
    kind smallint NOT NULL,
    time_ns bigint NOT NULL,
    bytes bytea NOT NULL,
    PRIMARY KEY (session, generation, direction, seq)
);
CREATE TABLE IF NOT EXISTS transfix_queue (
    session bigint NOT NULL REFERENCES transfix_session,
    ticket bigint NOT NULL,
    time_ns bigint NOT NULL,
    bytes bytea NOT NULL,
    PRIMARY KEY (session, ticket)
);
CREATE TABLE IF NOT EXISTS transfix_note (
    session bigint NOT NULL REFERENCES transfix_session,
    time_ns bigint NOT NULL,
    words text NOT NULL
);
-- One turn of a session. Answers with the generation, or with null if another process has taken
-- the session over.
CREATE OR REPLACE FUNCTION transfix_commit(
    of_session bigint, by_writer bigint,
    new_next_in bigint, new_next_out bigint, new_created_ns bigint,
    resets boolean, hides_from bigint,
    directions smallint[], seqs bigint[], kinds smallint[], times bigint[], bodies bytea[],
    unqueued bigint, tickets bigint[], queued_times bigint[], queued_bodies bytea[],
    note_times bigint[], notes text[]
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    now_generation bigint;
BEGIN
    UPDATE transfix_session
    SET next_in = new_next_in, next_out = new_next_out, created_ns = new_created_ns,
        generation = generation + resets::int
    WHERE id = of_session AND writer = by_writer
    RETURNING generation INTO now_generation;
    IF now_generation IS NULL THEN
        RETURN NULL;
    END IF;
    IF hides_from > 0 THEN
        DELETE FROM transfix_message
        WHERE session = of_session AND generation = now_generation AND direction = 0
            AND seq >= hides_from;
    END IF;
    INSERT INTO transfix_message
    SELECT of_session, now_generation, m.*
    FROM unnest(directions, seqs, kinds, times, bodies) AS m
    ON CONFLICT (session, generation, direction, seq) DO UPDATE
    SET kind = excluded.kind, time_ns = excluded.time_ns, bytes = excluded.bytes;
    IF unqueued > 0 THEN
        DELETE FROM transfix_queue WHERE session = of_session AND ticket <= unqueued;
    END IF;
    INSERT INTO transfix_queue
    SELECT of_session, q.* FROM unnest(tickets, queued_times, queued_bodies) AS q;
    INSERT INTO transfix_note SELECT of_session, n.* FROM unnest(note_times, notes) AS n;
    RETURN now_generation;
END
$$;
