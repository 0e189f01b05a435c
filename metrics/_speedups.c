/* The counting loops of ROUGE, BLEU and nF1, compiled.

Optional: where there is no compiler, the functions of the same meaning in _rouge155.py, bleu.py and nf1.py are used,
and every number is the same. They say what is counted, and why; tests hold these here to them.

Strings are numbered first (equal strings, equal numbers), and all else is done on arrays of numbers. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef int32_t Number;

/* A text as the numbers of its words. */
typedef struct {
    Number *words;
    Py_ssize_t length;
} Text;

/* Several texts, such as the sentences of a summary: one text after the other, and where each begins. */
typedef struct {
    Text all;
    Text *parts;
    Py_ssize_t count;
    Py_ssize_t longest;
} Texts;

/* Return the number of a word; a new word gets the next number. -1 with an error set. */
static Number
number_word(PyObject *word, PyObject *vocabulary)
{
    PyObject *known = PyDict_GetItemWithError(vocabulary, word);
    if (known != NULL)
        return (Number)PyLong_AsLong(known);
    if (PyErr_Occurred())
        return -1;
    Number number = (Number)PyDict_Size(vocabulary);
    PyObject *added = PyLong_FromLong(number);
    int failed = added == NULL || PyDict_SetItem(vocabulary, word, added) < 0;
    Py_XDECREF(added);
    return failed ? -1 : number;
}

/* Read lists of words; the dict has their numbers. Return 0, or -1 with an error set. */
static int
read_texts(PyObject *lists, PyObject *vocabulary, Texts *found)
{
    Py_ssize_t total = 0, count = PyList_Size(lists);
    for (Py_ssize_t at = 0; at < count; at++) {
        Py_ssize_t size = PyList_Size(PyList_GetItem(lists, at));
        if (size < 0)
            return -1;
        total += size;
        found->longest = size > found->longest ? size : found->longest;
    }
    if (count < 0)
        return -1;
    found->all.words = malloc((size_t)(total + 1) * sizeof(Number));
    found->parts = malloc((size_t)(count + 1) * sizeof(Text));
    if (found->all.words == NULL || found->parts == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (; found->count < count; found->count++) {
        PyObject *list = PyList_GetItem(lists, found->count);
        Text *text = found->parts + found->count;
        *text = (Text){found->all.words + found->all.length, PyList_Size(list)};
        for (Py_ssize_t at = 0; at < text->length; at++) {
            Number number = number_word(PyList_GetItem(list, at), vocabulary);
            if (number < 0)
                return -1;
            text->words[at] = number;
        }
        found->all.length += text->length;
    }
    return 0;
}

static void
free_texts(Texts *texts)
{
    free(texts->all.words);
    free(texts->parts);
}

/* N-grams. An n-gram is the pair of the (n-1)-gram that it begins with and its last word; a pair has a number too. */

typedef struct {
    uint64_t *keys; /* the pair plus 1, so that 0 is an empty slot */
    Number *numbers;
    size_t mask;
    Number known;
} Pairs;

static int
make_pairs(Pairs *pairs, Py_ssize_t most)
{
    size_t slots = 16;
    while (slots < 2 * (size_t)most)
        slots *= 2;
    pairs->mask = slots - 1;
    pairs->known = 0;
    pairs->keys = calloc(slots, sizeof(uint64_t));
    pairs->numbers = malloc(slots * sizeof(Number));
    return pairs->keys != NULL && pairs->numbers != NULL ? 0 : -1;
}

static Number
number_pair(Pairs *pairs, Number first, Number second)
{
    uint64_t key = ((uint64_t)(uint32_t)first << 32 | (uint32_t)second) + 1;
    size_t slot = (size_t)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 20) & pairs->mask;
    while (pairs->keys[slot] != 0 && pairs->keys[slot] != key)
        slot = (slot + 1) & pairs->mask;
    if (pairs->keys[slot] == 0) {
        pairs->keys[slot] = key;
        pairs->numbers[slot] = pairs->known++;
    }
    return pairs->numbers[slot];
}

/* Count the n-grams of the first text that others have, each at most as often as the text that has it most often:
   hits[0] for order 1, and so on. Words are numbered below `distinct`. */
static int
count_ngrams(const Text *texts, Py_ssize_t count, Number distinct, int orders, Py_ssize_t *hits)
{
    Py_ssize_t total = 0;
    for (Py_ssize_t t = 0; t < count; t++)
        total += texts[t].length;
    Pairs pairs = {NULL, NULL, 0, 0};
    Number *grams = malloc((size_t)(total + 1) * sizeof(Number));
    Number *counts = malloc(((size_t)total + (size_t)distinct + 1) * 2 * sizeof(Number));
    int failed = grams == NULL || counts == NULL || (orders > 1 && make_pairs(&pairs, total) < 0);
    if (failed)
        goto done;
    Py_ssize_t start = 0;
    for (Py_ssize_t t = 0; t < count; start += texts[t++].length)
        memcpy(grams + start, texts[t].words, (size_t)texts[t].length * sizeof(Number));
    for (int order = 1; order <= orders; order++) {
        if (order > 1) { /* from the grams of the order below to those of this one */
            memset(pairs.keys, 0, (pairs.mask + 1) * sizeof(uint64_t));
            pairs.known = 0;
            start = 0;
            for (Py_ssize_t t = 0; t < count; start += texts[t++].length)
                for (Py_ssize_t at = 0; at + order <= texts[t].length; at++)
                    grams[start + at] =
                        number_pair(&pairs, grams[start + at], texts[t].words[at + order - 1]);
            distinct = pairs.known;
        }
        Number *available = counts, *now = counts + distinct;
        memset(counts, 0, (size_t)distinct * 2 * sizeof(Number));
        start = texts[0].length;
        for (Py_ssize_t t = 1; t < count; start += texts[t++].length) {
            Py_ssize_t last = texts[t].length - order;
            for (Py_ssize_t at = 0; at <= last; at++) {
                Number gram = grams[start + at];
                if (++now[gram] > available[gram])
                    available[gram] = now[gram];
            }
            for (Py_ssize_t at = 0; at <= last; at++)
                now[grams[start + at]] = 0;
        }
        hits[order - 1] = 0;
        for (Py_ssize_t at = 0; at + order <= texts[0].length; at++)
            if (available[grams[at]] > 0) {
                available[grams[at]]--;
                hits[order - 1]++;
            }
    }
done:
    free(grams);
    free(counts);
    free(pairs.keys);
    free(pairs.numbers);
    return failed ? -1 : 0;
}

/* Summary-level LCS, as in _rouge155._mark: a row of the table is a bit vector (Hyyro 2004), in words of 64 bits. */

typedef uint64_t Bits;

static int
count_bits(Bits bits)
{
#if defined(__GNUC__) || defined(__clang__)
    return __builtin_popcountll(bits);
#else
    int count = 0;
    for (; bits; bits &= bits - 1)
        count++;
    return count;
#endif
}

static Bits
low_bits(Py_ssize_t count)
{
    return count >= 64 ? ~(Bits)0 : ((Bits)1 << count) - 1;
}

/* Return the LCS length that a row has in column j: its clear bits below j. */
static Py_ssize_t
length_at(const Bits *row, Py_ssize_t j)
{
    Py_ssize_t set = 0;
    for (Py_ssize_t word = 0; word * 64 < j; word++)
        set += count_bits(row[word] & low_bits(j - word * 64));
    return j - set;
}

/* A candidate sentence: where each of its words that the reference has stands, as bits of columns. Other words match
   nothing, and without rows for them a long text of a stranger's takes no more room than the reference allows. */
typedef struct {
    Text text;
    Py_ssize_t width; /* words of 64 bits in a row */
    Bits *places;     /* (distinct words of sentence and reference, width) */
    Number *slots;    /* word to its row of places plus 1; 0 for words that are not there */
    const Number *wanted; /* how often the reference has each word */
} Columns;

static void
find_places(Columns *columns)
{
    Number used = 0;
    for (Py_ssize_t j = 0; j < columns->text.length; j++) {
        Number *slot = columns->slots + columns->text.words[j];
        if (columns->wanted[columns->text.words[j]] == 0)
            continue;
        if (*slot == 0) {
            *slot = ++used;
            memset(columns->places + (used - 1) * columns->width, 0, (size_t)columns->width * sizeof(Bits));
        }
        columns->places[(*slot - 1) * columns->width + j / 64] |= (Bits)1 << (j % 64);
    }
}

static void
forget_places(Columns *columns)
{
    for (Py_ssize_t j = 0; j < columns->text.length; j++)
        columns->slots[columns->text.words[j]] = 0;
}

/* Mark the words of a reference sentence on its LCS with a candidate sentence. `rows` has room for the table. */
static void
mark(Text reference, const Columns *columns, Bits *rows, char *marked)
{
    Py_ssize_t width = columns->width, j = columns->text.length, i = reference.length;
    for (Py_ssize_t word = 0; word < width; word++)
        rows[word] = low_bits(j - word * 64);
    for (Py_ssize_t at = 0; at < i; at++) {
        const Bits *row = rows + at * width;
        Bits *next = rows + (at + 1) * width;
        Number slot = columns->slots[reference.words[at]];
        if (slot == 0) {
            memcpy(next, row, (size_t)width * sizeof(Bits));
            continue;
        }
        const Bits *places = columns->places + (slot - 1) * width;
        Bits carry = 0;
        for (Py_ssize_t word = 0; word < width; word++) {
            Bits matches = row[word] & places[word], sum = row[word] + matches, with_carry = sum + carry;
            carry = (sum < matches) | (with_carry < carry);
            next[word] = (with_carry | (row[word] & ~matches)) & rows[word];
        }
    }
    Py_ssize_t length = length_at(rows + i * width, j);
    while (length > 0) {
        if (reference.words[i - 1] == columns->text.words[j - 1]) {
            i--, j--, length--;
            marked[i] = 1;
        }
        else if (!(rows[i * width + (j - 1) / 64] >> ((j - 1) % 64) & 1) ||
                 length_at(rows + (i - 1) * width, j) == length)
            i--;
        else
            j--;
    }
}

/* Count the words of the reference that are marked, none more often than each text has it; -1 without memory. */
static Py_ssize_t
count_lcs_hits(const Texts *candidate, const Texts *reference, Number distinct)
{
    Py_ssize_t hits = -1, width = (candidate->longest + 63) / 64;
    Columns columns = {{NULL, 0}, 0, NULL, NULL, NULL};
    columns.slots = calloc((size_t)distinct + 1, sizeof(Number));
    Bits *rows = malloc((size_t)((reference->longest + 1) * width + 1) * sizeof(Bits));
    char *marked = calloc((size_t)reference->all.length + 1, 1);
    Number *left = calloc((size_t)distinct * 2 + 1, sizeof(Number)), *right = left + distinct;
    if (columns.slots == NULL || rows == NULL || marked == NULL || left == NULL)
        goto done;
    Py_ssize_t shared = 0;
    for (Py_ssize_t at = 0; at < reference->all.length; at++)
        shared += right[reference->all.words[at]]++ == 0;
    columns.wanted = right;
    shared = shared < candidate->longest ? shared : candidate->longest;
    columns.places = malloc((size_t)(shared * width + 1) * sizeof(Bits));
    if (columns.places == NULL)
        goto done;
    for (Py_ssize_t c = 0; c < candidate->count; c++) {
        columns.text = candidate->parts[c];
        columns.width = (columns.text.length + 63) / 64;
        find_places(&columns);
        for (Py_ssize_t r = 0; r < reference->count; r++) {
            Text sentence = reference->parts[r];
            mark(sentence, &columns, rows, marked + (sentence.words - reference->all.words));
        }
        forget_places(&columns);
    }
    for (Py_ssize_t at = 0; at < candidate->all.length; at++)
        left[candidate->all.words[at]]++;
    hits = 0;
    for (Py_ssize_t at = 0; at < reference->all.length; at++) {
        Number word = reference->all.words[at];
        if (marked[at] && left[word] > 0 && right[word] > 0) {
            hits++;
            left[word]--;
            right[word]--;
        }
    }
done:
    free(columns.places);
    free(columns.slots);
    free(rows);
    free(marked);
    free(left);
    return hits;
}

/* (candidate, reference): sentences as lists of words. */
static PyObject *
count_rouge(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    if (count != 2)
        return PyErr_Format(PyExc_TypeError, "count_rouge takes 2 arguments; given %zd", count);
    PyObject *result = NULL, *vocabulary = PyDict_New();
    Texts candidate = {{NULL, 0}, NULL, 0, 0}, reference = {{NULL, 0}, NULL, 0, 0};
    Py_ssize_t hits[2], lcs;
    if (vocabulary == NULL || read_texts(arguments[0], vocabulary, &candidate) < 0 ||
        read_texts(arguments[1], vocabulary, &reference) < 0)
        goto done;
    Text texts[2] = {candidate.all, reference.all};
    Number distinct = (Number)PyDict_Size(vocabulary);
    Py_ssize_t left = texts[0].length, right = texts[1].length;
    lcs = count_lcs_hits(&candidate, &reference, distinct);
    if (lcs < 0 || count_ngrams(texts, 2, distinct, 2, hits) < 0)
        PyErr_NoMemory();
    else
        result = Py_BuildValue("((nnn)(nnn)(nnn))", hits[0], left, right, hits[1], left > 0 ? left - 1 : 0,
                               right > 0 ? right - 1 : 0, lcs, left, right);
done:
    Py_XDECREF(vocabulary);
    free_texts(&candidate);
    free_texts(&reference);
    return result;
}

/* (texts, highest order): lists of words. The hits of higher orders are 0. */
static PyObject *
ngram_hits(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    long orders = count == 2 ? PyLong_AsLong(arguments[1]) : 0;
    if (orders < 1 || orders > 4)
        return PyErr_Format(PyExc_TypeError, "ngram_hits takes a list of texts, and a highest order of 1 to 4");
    PyObject *result = NULL, *vocabulary = PyDict_New();
    Texts texts = {{NULL, 0}, NULL, 0, 0};
    Py_ssize_t hits[4] = {0, 0, 0, 0};
    if (vocabulary == NULL || read_texts(arguments[0], vocabulary, &texts) < 0)
        goto done;
    if (texts.count == 0)
        PyErr_SetString(PyExc_ValueError, "ngram_hits needs at least one text");
    else if (count_ngrams(texts.parts, texts.count, (Number)PyDict_Size(vocabulary), (int)orders, hits) < 0)
        PyErr_NoMemory();
    else
        result = Py_BuildValue("nnnn", hits[0], hits[1], hits[2], hits[3]);
done:
    Py_XDECREF(vocabulary);
    free_texts(&texts);
    return result;
}

/* nF1's normal form, as in nf1.normalize. */

static int
is_letter_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static int
is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r') || (c >= '\x1c' && c <= '\x1f');
}

static int
is_article(const char *word, size_t length)
{
    return (length == 1 && word[0] == 'a') || (length == 2 && memcmp(word, "an", 2) == 0) ||
           (length == 3 && memcmp(word, "the", 3) == 0);
}

/* Write a text of ASCII without punctuation and capitals; return its end, or NULL if there are other characters. */
static char *
strip(const char *text, Py_ssize_t size, char *target)
{
    for (Py_ssize_t at = 0; at < size; at++) {
        char c = text[at];
        if ((unsigned char)c >= 128)
            return NULL;
        if (c >= 'A' && c <= 'Z')
            c += 'a' - 'A';
        if (is_letter_or_digit(c) || c <= ' ' || c == '\x7f')
            *target++ = c;
    }
    return target;
}

static PyObject *
normalize_ascii(PyObject *module, PyObject *given)
{
    Py_ssize_t size;
    const char *text = PyUnicode_AsUTF8AndSize(given, &size);
    if (text == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError))
            return NULL;
        PyErr_Clear(); /* half of a surrogate pair */
        Py_RETURN_NONE;
    }
    char few[256], *buffer = size < (Py_ssize_t)sizeof(few) ? few : malloc((size_t)size);
    if (buffer == NULL)
        return PyErr_NoMemory();
    PyObject *result = NULL;
    char *end = strip(text, size, buffer), *kept = buffer;
    int gap = 0; /* whether a space is due before what comes next */
    for (char *at = buffer; end != NULL && at < end;) {
        char *start = at;
        while (at < end && is_letter_or_digit(*at))
            at++;
        if (at == start)
            at++; /* a space, or a control character, which stays */
        if (is_space(*start) || is_article(start, (size_t)(at - start))) {
            gap = kept > buffer;
            continue;
        }
        if (gap)
            *kept++ = ' ';
        gap = 0;
        memmove(kept, start, (size_t)(at - start));
        kept += at - start;
    }
    if (end != NULL)
        result = PyUnicode_FromStringAndSize(buffer, kept - buffer);
    if (buffer != few)
        free(buffer);
    if (end == NULL)
        Py_RETURN_NONE;
    return result;
}

static PyMethodDef functions[] = {
    {"count_rouge", (PyCFunction)(void (*)(void))count_rouge, METH_FASTCALL,
     "Do what _rouge155.count_in_python does."},
    {"ngram_hits", (PyCFunction)(void (*)(void))ngram_hits, METH_FASTCALL,
     "Count the first text's n-grams that others have, for each order up to the highest."},
    {"normalize_ascii", normalize_ascii, METH_O,
     "Do what nf1.normalize does; None for a text that is not ASCII."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_speedups", "Compiled counting loops; see _speedups.c.", 0, functions, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC
PyInit__speedups(void)
{
    return PyModuleDef_Init(&definition);
}
