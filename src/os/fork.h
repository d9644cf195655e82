/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a forked child must know: that it is one. Threads, locks and the state of files and sockets
 * belong to the process that made them, so nothing opened before a fork can be used behind it.
 */
#ifndef KEEL_OS_FORK_H
#define KEEL_OS_FORK_H

/*
 * How many forks lie between the process that loaded the library and this one. An object keeps the
 * number of its birth; where it differs from this one the object is a parent's. Changes only in a
 * child that has one thread.
 */
extern unsigned os_fork_generation;

/*
 * A child closes the descriptor at once: it must keep neither a lock of its parent alive, nor a
 * connection. Where memory is out the descriptor is not guarded, which only a fork would notice.
 * Before it is closed here it is released. Any thread.
 */
void os_fork_guard(int descriptor);
void os_fork_release(int descriptor);

/*
 * Has `reset` called in every child, before fork returns there, in the order of the first calls:
 * it forgets a module's state and makes its locks anew. The same function twice is once. Any thread.
 */
void os_fork_on_child(void (*reset)(void));

#endif
