/* The part of <pthread.h> that the runtime needs. The types are larger than those of any C library for Linux, so that
   a library runs with Android's, and in tests with that of a desktop system. Zeros initialise all of them. */
#ifndef DEPLOYKIT_PTHREAD_H
#define DEPLOYKIT_PTHREAD_H

typedef long pthread_t;
typedef struct {
    long long room[8];
} pthread_mutex_t;
typedef struct {
    long long room[8];
} pthread_cond_t;

#define PTHREAD_MUTEX_INITIALIZER {{0}}

int pthread_create(pthread_t* thread, const void* attributes, void* (*start)(void*), void* argument);
pthread_t pthread_self(void);
int pthread_join(pthread_t thread, void** result);
int pthread_mutex_init(pthread_mutex_t* mutex, const void* attributes);
int pthread_mutex_lock(pthread_mutex_t* mutex);
int pthread_mutex_unlock(pthread_mutex_t* mutex);
int pthread_mutex_destroy(pthread_mutex_t* mutex);
int pthread_cond_init(pthread_cond_t* condition, const void* attributes);
int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex);
int pthread_cond_signal(pthread_cond_t* condition);
int pthread_cond_broadcast(pthread_cond_t* condition);
int pthread_cond_destroy(pthread_cond_t* condition);

#endif
