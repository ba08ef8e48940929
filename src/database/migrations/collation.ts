/**
 * The binary NO PAD collation, which distinguishes case, accents and trailing spaces. Its name differs between MariaDB and MySQL:
 * each of them executes one of the comments.
 */
export const exactCollation = '/*M! utf8mb4_nopad_bin */ /*!80001 utf8mb4_0900_bin */'
