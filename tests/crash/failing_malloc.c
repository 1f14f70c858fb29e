/* Fails chosen allocations of a process: preload it and call fail_allocations.
 *
 * Every allocation of the C library's allocator counts, in all threads: those of SQLite, of
 * numpy, and with PYTHONMALLOC=malloc those of each Python object.
 */
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stddef.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static atomic_long made, first = LONG_MAX, last = LONG_MAX;

/* The number of allocations since the last call of fail_allocations. */
long allocations(void) { return atomic_load(&made); }

/* Fail `count` allocations from the one number `at` on; none when `at` is 0. */
void fail_allocations(long at, long count) {
    atomic_store(&first, LONG_MAX);
    atomic_store(&made, 0);
    atomic_store(&last, count > LONG_MAX - at ? LONG_MAX : at + count - 1);
    atomic_store(&first, at ? at : LONG_MAX);
}

static int fails(void) {
    long number = atomic_fetch_add(&made, 1) + 1;
    if (number < atomic_load(&first) || number > atomic_load(&last)) return 0;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t size) { return fails() ? NULL : __libc_malloc(size); }
void *calloc(size_t number, size_t size) { return fails() ? NULL : __libc_calloc(number, size); }
void *realloc(void *old, size_t size) { return fails() ? NULL : __libc_realloc(old, size); }
void *aligned_alloc(size_t align, size_t size) {
    return fails() ? NULL : __libc_memalign(align, size);
}
void *memalign(size_t align, size_t size) { return aligned_alloc(align, size); }
int posix_memalign(void **found, size_t align, size_t size) {
    void *made_here = aligned_alloc(align, size);
    if (made_here == NULL) return ENOMEM;
    *found = made_here;
    return 0;
}
