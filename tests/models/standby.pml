/* Two machines, one world, for Spin: the protocol of standby/, the fence, --promote, --switch-over, --demote and of a machine
 * that starts. README.md has its terms and rules; each rule is needed: without it (-DNO_RULE_n) an assertion fails.
 *
 *   LEASE=1  [standby] lease = s3 | etcd: the record changes on condition, and its machine acts while its lease lasts
 *   LEASE=0  lease = none: the record is written without comparison; a person keeps the other machine off meanwhile
 *   CALM     faults end at any moment; from there the documented commands lead back to UP
 *
 * Taken for granted, as lease.h shows by arithmetic: a lease ends by its holder's own clock before the place lets another
 * machine have the world. The place of the lease is not that of the record, and may be lost or go back to an older state at
 * any moment: so what it has counts for nothing here, and a machine without a lease reads the record to have one. All else happens at any step: crashes, reboots, a machine that stands still or is cut off (it
 * takes no step, and its lease ends), requests and uploads that arrive late or never, lost answers, commands.
 *
 * A world is the set of the writes in it, two bits; the second one, DURABLE, stands for a rollup, or a trigger. The store
 * has one chain for each life, which is such a set. Bounds: LIVES, CRASHES, FLIGHTS (uploads and saves), two writes. */
#define A     0
#define B     1
#define other (1 - m)
#define SAY(what) printf("\n%c ", 65 + m); printf(what)
#define NONE  8 /* no chain in the store */
#define ALL   3
#define DURABLE 2
#ifndef LEASE
#define LEASE 1
#endif

mtype = {OFF, BOOT, LOST, STANDBY, ASKED, LOADED, UP, HELD, HANDING}; /* what a machine does */
mtype = {LIVE, HANDED};                                         /* the record's state */
mtype = {NOTHING, BEGIN, HAND, UPLOAD, SAVE};                   /* what is under way */

/* The record, with each life's ancestor and what was taken over from it; in the store what each life has stored. A promotion
 * asks for it before it puts the world in place; a machine that it names already, which restores its world itself, before it
 * stores anything of the new life. */
byte rec_life = 1, rec_machine = A, rec_position;
mtype rec_state = LIVE;
byte parent[LIVES + 5], took[LIVES + 5], chain[LIVES + 5], newest = 1, lives = 1;

/* The machines. `life` and `disk` survive a crash, `rows` do not. */
mtype phase[2];
byte life[2], rows[2], disk[2], disk_life[2]; /* its dumps and journal, and the life that they are of */
bool lease[2];
mtype request[2] = NOTHING, flight[2] = NOTHING;                    /* to the record; to the stores */
byte asked_life[2], asked_old[2], asked_took[2]; /* the new life, which one it replaces, with what */
bool says_all[2];                                /* what the promotion is going to say: nothing lost */
byte flight_life[2], flight_rows[2], flight_lock[2];
byte began[2], gone[2], asked_gone[2]; /* of a life that a machine began itself: with what, and without which writes */
bool asked_own[2];                     /* it asks for such a life to be recorded */

/* The central store: one session, the number of its lock, and which life's save it has, by the order in which they began. */
byte lock = 1, order = 1, saved, my_lock[2], my_order[2];

/* Known to nobody: writes that were acknowledged and not reported as lost; those of lives after their successors began. */
byte acked, abandoned, written;
byte crashes, flights;
bool calm;

#define MORE (4 * calm)
#define FREE(m) (flight[m] == NOTHING && flights < FLIGHTS && !calm)
#define BEGINS(m) (phase[m] == ASKED || phase[m] == LOADED)
#define NAMES(m) (rec_machine == m && rec_state == LIVE)
#define RECORDED(m) (NAMES(m) && rec_life == life[m])
#ifdef NO_RULE_2 /* asked at some time, not directly before the act */
#define MAY_ACT(m) true
#elif defined(NO_RECORD_BEFORE_LEASE) /* an act asks the lease alone */
#define MAY_ACT(m) lease[m]
#else
#define MAY_ACT(m) (NAMES(m) && (lease[m] || !LEASE))
#endif
#ifdef NO_RECORD_BEFORE_LEASE /* the lease's place decides, which may have been lost or restored from a backup */
#define MAY_HOLD(m) (!lease[other])
#else
#define MAY_HOLD(m) NAMES(m)
#endif
#ifdef NO_RULE_6 /* the end of the journal may still be on its way */
#define STORED true
#else
#define STORED (chain[life[m]] == DUMPED(rows[m]))
#endif
#ifdef NO_RULE_7 /* nothing lost: no error was met */
#define SAYS_ALL true
#else
#define SAYS_ALL (rec_state == HANDED)
#endif
#ifdef NO_RULE_9 /* a dump has the rows of MEMORY tables, and nothing else */
#define DUMPED(c) ((c) & ~DURABLE)
#else
#define DUMPED(c) (c)
#endif

/* Rule 3: what a reader takes. Of each ancestor only what its successor took over. */
inline read_chain()
{
#ifdef NO_RULE_3
    c = chain[newest];
#else
    c = ALL;
    l = rec_life;
    do
    :: l && chain[l] == NONE -> c = c & took[l]; l = parent[l]
    :: else -> break
    od;
    c = (l -> c & chain[l] : NONE);
    l = 0;
    if /* local files: of this life, of one that is not recorded yet, or of an ancestor */
    :: disk_life[m] && disk_life[m] == life[m] && life[m] != rec_life && rec_machine == m -> c = disk[m]
    :: disk_life[m] && !(disk_life[m] == life[m] && life[m] != rec_life && rec_machine == m) ->
        c = (c == NONE -> 0 : c) | (disk_life[m] == rec_life -> disk[m] : disk[m] & took[rec_life])
    :: else
    fi
#endif
}

/* Rule 1: the swap is asked for before any table is replaced, and before anything is uploaded or said. */
inline ask(content)
{
    lives++;
    asked_life[m] = lives;
    asked_old[m] = rec_life;
    asked_took[m] = content;
    asked_own[m] = false;
    request[m] = BEGIN;
    phase[m] = ASKED
}

/* The world is put in place and published as UP. */
inline begin_life(content)
{
    rows[m] = content;
    disk[m] = rows[m];
    disk_life[m] = life[m];
#ifndef NO_RULE_8
    lock++; /* the session's lock is acquired again */
#endif
    my_lock[m] = lock;
    order++;
    my_order[m] = order;
    phase[m] = UP;
    assert(NAMES(m));                   /* the newest life of the record, on its machine */
    assert(!(rows[m] & abandoned));     /* no abandoned world wins */
    assert(!(says_all[m] && acked & ~rows[m])); /* "nothing lost" is true */
    acked = acked & rows[m];            /* what is missing has been reported */
    says_all[m] = false
}

/* A machine that the record names begins a life itself; it is recorded before anything of it is uploaded. */
inline restore_here(content)
{
    lives++;
    life[m] = lives;
    began[m] = content;
    gone[m] = written & ~content;
    begin_life(content)
}

/* Rule 4: the local world is kept under other names, never restored by itself. */
inline set_aside()
{
    rows[m] = 0;
    disk[m] = 0;
    disk_life[m] = 0;
    life[m] = 0;
    lease[m] = false;
    phase[m] = STANDBY
}

proctype machine(byte m)
{
    byte c, l;
    do
    /* Faults. The lease of a machine that stands still, is cut off, or hears no answer, ends. */
    :: d_step { phase[m] != OFF && crashes < CRASHES && !calm -> SAY("crashes");
        crashes++; phase[m] = OFF; rows[m] = 0;
        request[m] = (LEASE -> request[m] : NOTHING)
    }
    :: d_step { lease[m] && (!calm || phase[m] == OFF) -> SAY("loses its lease"); lease[m] = false }
    :: d_step { request[m] != NOTHING && !calm -> SAY("has asked the record, which never hears it"); request[m] = NOTHING }
    :: d_step { flight[m] != NOTHING && !calm -> SAY("has sent what never arrives"); flight[m] = NOTHING }

    /* A game writes to whoever lets it. */
    :: d_step { phase[m] == UP && written != ALL && !calm -> SAY("has a write of the game");
        c = written + 1; written = written | c; rows[m] = rows[m] | c;
        acked = (NAMES(m) -> acked | c : acked);
        abandoned = (NAMES(m) -> abandoned : abandoned | c);
        c = 0
    }

    /* While a lease lasts it is renewed; one that is gone is taken again if the record names this machine. When that names
     * another one, the world goes. */
    :: d_step { LEASE && !lease[m] && MAY_HOLD(m) && (phase[m] == UP || phase[m] == LOADED || phase[m] == LOST) ->
        SAY("takes its lease again");
        lease[m] = true }
    :: d_step { rec_machine != m && request[m] == NOTHING &&
                (phase[m] == UP || phase[m] == HELD || phase[m] == LOADED || phase[m] == LOST) ->
        SAY("sets its world aside"); set_aside() }

    /* Dumps and segments go to the disk and to the store, saves to the central store; they may arrive late. */
    :: d_step { (phase[m] == UP || phase[m] == HELD) && FREE(m) && MAY_ACT(m) && RECORDED(m) -> SAY("uploads its world");
        assert(NAMES(m));
        flights++; flight[m] = UPLOAD; flight_life[m] = life[m]; flight_rows[m] = DUMPED(rows[m]); disk[m] = rows[m]
    }
    :: d_step { phase[m] == UP && FREE(m) && MAY_ACT(m) -> SAY("sends a save");
        assert(NAMES(m));
        flights++; flight[m] = SAVE; flight_life[m] = my_order[m]; flight_lock[m] = my_lock[m]
    }
    :: d_step { flight[m] == UPLOAD -> SAY("has its upload in the store");
        chain[flight_life[m]] = flight_rows[m]; newest = flight_life[m];
        flight[m] = NOTHING; flight_life[m] = 0; flight_rows[m] = 0
    }
    :: d_step { flight[m] == SAVE -> SAY("has its save at the central store");
        if
        :: flight_lock[m] != lock /* stolen: refused */
        :: else -> assert(flight_life[m] >= saved); saved = flight_life[m] /* no older one over a newer one */
        fi;
        flight[m] = NOTHING; flight_life[m] = 0; flight_lock[m] = 0
    }

    /* The record's place, whenever a request arrives: it compares and swaps. With lease = none it only writes. */
    :: d_step { request[m] == BEGIN -> SAY("has its swap at the record");
        if
        :: !LEASE || rec_life == asked_old[m] && (rec_machine == m || !lease[other] || rec_state == HANDED) ->
            parent[asked_life[m]] = rec_life; took[asked_life[m]] = asked_took[m];
            abandoned = abandoned | (asked_own[m] -> asked_gone[m] : written & ~asked_took[m]);
            rec_life = asked_life[m]; rec_machine = m; rec_state = LIVE; rec_position = 0
        :: else
        fi;
        request[m] = NOTHING
    }
    :: d_step { request[m] == HAND -> SAY("has its handover at the record");
        rec_position = (RECORDED(m) -> asked_took[m] : rec_position);
        rec_state = (RECORDED(m) -> HANDED : rec_state);
        request[m] = NOTHING
    }
    /* The answer, or, where that is lost, the record that is read again: it is ours if it holds our nonce. */
    :: d_step { phase[m] == ASKED && rec_life == asked_life[m] -> SAY("reads that the world is its own");
        lease[m] = LEASE; phase[m] = LOADED }
    :: d_step { phase[m] == ASKED && rec_life != asked_life[m] && request[m] == NOTHING -> SAY("reads that it is not");
        says_all[m] = false; phase[m] = BOOT }
    :: d_step { phase[m] == LOADED && MAY_ACT(m) && rec_life == asked_life[m] -> SAY("puts its world in place, and says UP");
        life[m] = rec_life; begin_life(took[life[m]]) }
    :: d_step { phase[m] == UP && MAY_ACT(m) && rec_life != life[m] && request[m] == NOTHING && !calm ->
        SAY("asks the record to name the life that it began itself");
        asked_life[m] = life[m]; asked_old[m] = rec_life; asked_took[m] = began[m];
        asked_gone[m] = gone[m]; asked_own[m] = true; request[m] = BEGIN }

    /* A machine that starts reads the record before it does anything. With lease = none a person keeps it off meanwhile. */
    :: d_step { phase[m] == OFF && (LEASE || !BEGINS(other)) -> SAY("boots"); phase[m] = BOOT }
    :: d_step { phase[m] == BOOT -> SAY("reads the record");
        if
#if defined(NO_RULE_4) || (defined(NO_RULE_5) && LEASE == 0)
        :: life[m] -> ask(disk[m])
#elif defined(NO_RECORD_BEFORE_LEASE)
        :: life[m] && MAY_HOLD(m) -> phase[m] = LOST
#else
        :: NAMES(m) && life[m] -> phase[m] = LOST
#endif
        :: else -> set_aside() /* also where the swap of a promotion succeeded before the crash: --promote once more */
        fi
    }

    :: d_step { phase[m] == LOST && MAY_ACT(m) && lives < LIVES + MORE -> SAY("restores its world");
        read_chain();
        c = (c == NONE -> 0 : c);
        restore_here(c);
        c = 0
    }

    /* --promote: once the other machine's lease is over, it has handed over, or a person says that it is off. */
    :: d_step { phase[m] == STANDBY && request[m] == NOTHING && lives < LIVES + MORE && (LEASE || !BEGINS(other)) &&
                (rec_state == HANDED || rec_machine == m || (LEASE -> !lease[other] : phase[other] == OFF)) ->
        SAY("--promote");
        read_chain();
        if
        :: c == NONE /* refused: the store has no dump */
#ifndef NO_RULE_6
        :: c != NONE && rec_state == HANDED && c != rec_position /* refused: not the position that was handed over */
#endif
        :: else ->
            says_all[m] = SAYS_ALL;
            ask(c);
#ifdef NO_RULE_1 /* loaded and published while the swap is under way */
            life[m] = asked_life[m]; begin_life(c);
#endif
        fi;
        c = 0
    }

    /* --switch-over: writers are held off, the store has the chain up to their last write, the record is swapped. */
    :: d_step { phase[m] == UP && MAY_ACT(m) && request[m] == NOTHING && !calm -> SAY("--switch-over"); phase[m] = HELD }
    :: d_step { phase[m] == HELD && MAY_ACT(m) && RECORDED(m) && STORED && !calm -> SAY("asks the record to be handed over");
        asked_took[m] = DUMPED(rows[m]); request[m] = HAND; phase[m] = HANDING }
    :: d_step { phase[m] == HANDING && rec_state == HANDED && rec_machine == m -> SAY("has handed over"); set_aside() }
    /* Until then it can be taken back; but not by reading the record, while the request may still arrive: by a renewal,
     * after which the record has another version and the request fails. */
    :: d_step { phase[m] == HELD || phase[m] == HANDING && NAMES(m) -> SAY("takes --switch-over back");
#ifndef NO_RENEWAL
        request[m] = NOTHING;
#endif
        phase[m] = UP }
    :: d_step { phase[m] == HANDING && rec_machine != m -> SAY("finds another machine's record");
        request[m] = NOTHING; set_aside() }

    /* --demote is refused here, since the record names this world; --demote --force reports what it loses. */
    :: d_step { phase[m] == UP && NAMES(m) && !calm -> SAY("--demote --force");
        read_chain();
        c = (c == NONE -> 0 : c);
#ifdef NO_RULE_10 /* the refusal recommended it */
        assert(!(acked & ~c));
#endif
        acked = acked & c; c = 0;
        set_aside()
    }
    /* --restore: a new life from what the chain has. */
    :: d_step { phase[m] == UP && MAY_ACT(m) && request[m] == NOTHING && lives < LIVES && !calm -> SAY("--restore");
        read_chain();
        if
        :: c == NONE
        :: else -> restore_here(c)
        fi;
        c = 0
    }
    od
}

init
{
    byte l;
    atomic {
        for (l : 2 .. LIVES + 4) { chain[l] = NONE }
        l = 0;
        phase[A] = UP; life[A] = 1; disk_life[A] = 1; lease[A] = LEASE; my_lock[A] = 1; my_order[A] = 1;
        phase[B] = STANDBY;
        run machine(A);
        run machine(B)
    }
}

#ifdef CALM
active proctype calms_down()
{
    calm = true;
    timeout -> assert(phase[A] == UP && NAMES(A) || phase[B] == UP && NAMES(B))
}
#endif
