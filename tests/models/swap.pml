/* The swap of a restore across crashes, on one machine, for Spin: restore/swap.c, restore/triggers.c, store/pending.h.
 * Between any two steps the restore is killed, its server crashes, or a statement is refused; then swap_recover() begins
 * the next restore. Each precaution (-DNO_...) is needed: without it an assertion fails.
 *
 * Two MEMORY tables, the first of which has a trigger; a game adds one row to it, unless it is locked. A table is known by
 * the world that it belongs to: the old world is 1, each restore loads another one. The RENAME is one statement to a client
 * that dies; a server that dies may leave the first part of it (MariaDB). */
#define NONE 99 /* there is no such table, file or row; a sentinel of 0 is a table without its row */
#define SAY(what) printf("\n"); printf(what)
#ifdef NO_ONE_RENAME /* a statement for each table */
#define LOCKED (part == 1 || part == 3 || part == 5)
#else
#define LOCKED (part > 0 && part < 6)
#endif

mtype = {LOAD, SAVE, SENTINEL, PROOF, PENDING, DROP_TRIGGER, MAKE_TRIGGER, RENAME,   /* swap_in() */
         BACK, BACK_REMOVE,                                                         /* take_back() */
         ALL_ROWS, WHOLE, DROP_OWN, KNOWN, REMOVE, UNPROVE, IS_UP,                  /* swap_tidy() */
         RECOVER, UNDO, PUT_TRIGGER, LEFT_OVER, DISCARD};                           /* swap_recover() */

mtype step = LOAD;
byte world = 1;                                    /* the newest load */
byte name[2] = 1, old[2] = NONE, shadow[2] = NONE; /* the world whose table has this name */
byte sentinel = 1, old_sentinel = NONE, shadow_sentinel = NONE;
byte trigger = 1;                                  /* the world of the table that it is on */
byte proof = NONE, pending = NONE, known = 1;      /* the digest on the server; pending.json; state.json */
bool listed, whole, same_server;                   /* pending.json: names the trigger; its conflict file has all rows */
bool swapped;                                      /* what swap_recover() found */
byte row = NONE, saved = NONE;                     /* the game's: in which world's table, in which restore's file */
bool written, lost;                                /* the server lost it before anything could save it */
byte part, crashes;                                /* how much of the RENAME was done */

inline rename(from, to) { to = from; from = NONE }

inline drop(place) /* of the first table, with what is in it and on it */
{
    row = (place == row -> NONE : row);
    trigger = (place == trigger -> NONE : trigger);
    place = NONE
}

active proctype restore()
{
    do
    :: d_step { step != IS_UP && crashes < CRASHES && !LOCKED -> SAY("worldkeeper is killed");
        crashes++; part = 0; step = RECOVER
    }
    :: d_step { step != IS_UP && crashes < CRASHES -> SAY("the server crashes, with all rows");
        crashes++; part = 0; step = RECOVER;
        lost = lost || row != NONE && saved == NONE;
        row = NONE;
        sentinel = (sentinel == NONE -> NONE : 0);
        old_sentinel = (old_sentinel == NONE -> NONE : 0);
        shadow_sentinel = (shadow_sentinel == NONE -> NONE : 0);
        same_server = false
    }
    :: d_step { !written && name[0] == 1 && sentinel == 1 && !LOCKED -> SAY("the game adds a row"); written = true; row = 1 }
    /* What the game sees: wherever the sentinel has its row, all tables are of its world. */
    :: d_step { !LOCKED && sentinel != NONE && sentinel != 0 -> assert(name[0] == sentinel && name[1] == sentinel) }

    /* swap_in(): the conflict file, the digest on the server, pending.json, the triggers, the RENAME. */
    :: d_step { step == LOAD -> SAY("loads the shadow tables"); world++; shadow[0] = world; shadow[1] = world; step = SAVE }
    :: d_step { step == SAVE -> SAY("saves the rows to be replaced");
        saved = (row != NONE && row == name[0] -> world : saved); step = SENTINEL }
    :: d_step { step == SENTINEL -> SAY("makes the shadow sentinel");
        shadow_sentinel = world; listed = trigger != NONE && trigger == name[0]; step = PROOF }
#ifdef NO_FILE_BEFORE_TRIGGERS
    :: d_step { step == PROOF -> SAY("writes the digest to the server"); proof = world; step = DROP_TRIGGER }
    :: d_step { step == MAKE_TRIGGER -> trigger = (listed -> world : trigger); step = PENDING }
    :: d_step { step == PENDING -> pending = world; whole = false; same_server = true; step = RENAME }
#else
    :: d_step { step == PROOF -> SAY("writes the digest to the server"); proof = world; step = PENDING }
    :: d_step { step == PENDING -> SAY("writes pending.json");
        pending = world; whole = false; same_server = true; step = DROP_TRIGGER }
    :: d_step { step == MAKE_TRIGGER -> SAY("makes the trigger on the shadow table");
        trigger = (listed -> world : trigger); step = RENAME }
#endif
    :: d_step { step == DROP_TRIGGER -> SAY("drops the trigger"); trigger = (listed -> NONE : trigger); step = MAKE_TRIGGER }
    :: d_step { step == RENAME && part < 6 -> SAY("renames one of six");
        if
        :: part == 0 -> rename(name[0], old[0])
        :: part == 1 -> rename(shadow[0], name[0])
        :: part == 2 -> rename(name[1], old[1])
        :: part == 3 -> rename(shadow[1], name[1])
        :: part == 4 -> rename(sentinel, old_sentinel)
        :: else -> rename(shadow_sentinel, sentinel)
        fi;
        part++
    }
    :: d_step { step == RENAME && part == 6 -> part = 0; step = ALL_ROWS }

    /* A lock that is not granted, or the fence: everything is as before. */
    :: d_step { step == RENAME && part == 0 && crashes < CRASHES -> SAY("the RENAME is refused"); crashes++; step = BACK }
    :: d_step { step == BACK -> SAY("puts the trigger back"); trigger = (listed -> name[0] : trigger); step = BACK_REMOVE }
    :: d_step { step == BACK_REMOVE -> SAY("removes pending.json"); pending = NONE; proof = NONE; step = RECOVER }

    /* swap_tidy(): what was written since the conflict file, then the replaced tables go. */
    :: d_step { step == ALL_ROWS -> SAY("saves what was written since");
#ifndef NO_ROWS_AFTER_RENAME
        saved = (row != NONE && row == old[0] -> world : saved);
#endif
        swapped = true; step = WHOLE
    }
    :: d_step { step == WHOLE -> SAY("notes that the conflict file is whole");
#ifndef NO_NOTE_BEFORE_DROP
        whole = true;
#endif
        step = DROP_OWN
    }
    :: d_step { step == DROP_OWN && old[0] != NONE -> SAY("drops a replaced table"); drop(old[0]) }
    :: d_step { step == DROP_OWN && old[1] != NONE -> old[1] = NONE }
    :: d_step { step == DROP_OWN && shadow[0] != NONE -> SAY("drops a shadow table"); drop(shadow[0]) }
    :: d_step { step == DROP_OWN && shadow[1] != NONE -> shadow[1] = NONE }
    :: d_step { step == DROP_OWN && old[0] == NONE && old[1] == NONE && shadow[0] == NONE && shadow[1] == NONE ->
        old_sentinel = NONE; shadow_sentinel = NONE;
        proof = (swapped -> proof : NONE);
        step = (swapped -> KNOWN : LOAD)
    }
    :: d_step { step == KNOWN -> SAY("knows the world as its own"); known = sentinel; step = REMOVE }
#ifdef NO_PROOF_UNTIL_REMOVED
    :: d_step { step == REMOVE -> proof = NONE; step = UNPROVE }
    :: d_step { step == UNPROVE -> pending = NONE; step = IS_UP }
#else
    :: d_step { step == REMOVE -> SAY("removes pending.json"); pending = NONE; step = UNPROVE }
    :: d_step { step == UNPROVE -> SAY("drops the digest"); proof = NONE; step = IS_UP }
#endif

    /* swap_recover(): whether the RENAME took place shows in the sentinel's row. */
    :: d_step { step == RECOVER -> SAY("swap_recover() looks");
        assert(pending == NONE || proof == pending); /* otherwise an operator must decide */
        swapped = pending != NONE && sentinel == pending;
        step = (pending == NONE -> DROP_OWN : (swapped -> PUT_TRIGGER : UNDO))
    }
    :: d_step { step == UNDO -> SAY("undoes a part of the RENAME");
        if
#ifndef NO_UNDO
        :: old[0] != NONE && name[0] != NONE -> rename(name[0], shadow[0])
        :: old[0] != NONE && name[0] == NONE -> rename(old[0], name[0])
        :: old[0] == NONE && old[1] != NONE && name[1] != NONE -> rename(name[1], shadow[1])
        :: old[0] == NONE && old[1] != NONE && name[1] == NONE -> rename(old[1], name[1])
        :: old[0] == NONE && old[1] == NONE && old_sentinel != NONE && sentinel == NONE -> rename(old_sentinel, sentinel)
#endif
        :: else -> step = PUT_TRIGGER
        fi
    }
    :: d_step { step == PUT_TRIGGER && listed && trigger != name[0] -> SAY("drops and makes the trigger");
        trigger = (trigger == NONE -> name[0] : NONE) }
    :: d_step { step == PUT_TRIGGER && (!listed || trigger == name[0]) -> step = (swapped -> LEFT_OVER : DISCARD) }
    /* The conflict file is written anew from what the replaced tables have; after a crash of the server another one is. */
    :: d_step { step == LEFT_OVER -> SAY("saves what the replaced tables have");
        if
        :: whole || old[0] == NONE && old[1] == NONE
        :: else -> saved = (row != NONE && row == old[0] -> pending : (same_server && saved == pending -> NONE : saved))
        fi;
        step = WHOLE
    }
    :: d_step { step == DISCARD -> SAY("removes pending.json"); pending = NONE; step = DROP_OWN }
    :: step == IS_UP -> break
    od;
    assert(name[0] != NONE && name[0] == name[1]);              /* all tables are of one world */
    assert(sentinel == name[0] && known == sentinel);           /* which has its sentinel, and is known as ours */
    assert(trigger == name[0]);                                 /* the game has its trigger */
    assert(old_sentinel == NONE && pending == NONE && proof == NONE);
    assert(!written || row == name[0] || saved != NONE || lost) /* no row of the game is lost by us */
}
